/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3_config.h - how to speak to S3, from where the AWS tools read it:
 *
 *     credentials   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; else the profile
 *                   in ~/.aws/credentials (AWS_SHARED_CREDENTIALS_FILE), else in ~/.aws/config
 *                   (AWS_CONFIG_FILE). Without any, requests are not signed, which public buckets
 *                   allow
 *     profile       AWS_PROFILE, else "default"
 *     region        AWS_REGION, AWS_DEFAULT_REGION, `region` of the profile; else us-east-1
 *     endpoint      AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, `endpoint_url` of the profile; else
 *                   Amazon's of the region
 *     addressing    `addressing_style` under `s3 =` of the profile: path, virtual, or auto: by the
 *                   path at an endpoint of one's own and for buckets whose name is no
 *                   host name, else by the host
 *     attempts      AWS_MAX_ATTEMPTS, `max_attempts` of the profile; else DD_S3_ATTEMPTS
 *     authorities   AWS_CA_BUNDLE, `ca_bundle` of the profile
 */
#ifndef DDICT_LOAD_S3_S3_CONFIG_H
#define DDICT_LOAD_S3_S3_CONFIG_H

#include <stdbool.h>

#define S3_KEY_MAX 1024u /* bytes; S3 allows no longer ones */
#define S3_FLIGHT  32u   /* objects on their way at once, of one thread */

struct s3_config {
    char access[256], secret[256], token[8192]; /* empty: none */
    char region[64];
    char endpoint[512]; /* "https://host[:port]", without a slash at its end; empty: Amazon's */
    char style[16];     /* path, virtual, auto */
    char ca[1024];      /* a file; empty: the system's */
    /* where credentials were looked for: for the sentence when they are missing */
    char looked[2600];
    unsigned attempts;
};

/* Read the configuration. anonymous: use no credentials, even if there are any. 0, or -EINVAL with
 * the sentence set: a file cannot be read, or a value is wrong. *c holds secrets: wipe it. */
int s3_config_read(struct s3_config *c, bool anonymous);
void s3_config_wipe(struct s3_config *c);
/* Whether region may go into a host's name and a signature: lower case letters, digits and '-'. */
bool s3_region_good(const char *region);
/* Whether the bucket's name belongs into the path of the URL, not into the host's name. */
bool s3_config_by_path(const struct s3_config *c, const char *bucket);

#endif
