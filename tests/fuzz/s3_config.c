/* SPDX-License-Identifier: Apache-2.0 */
/* s3_config.c - the files of the AWS tools: credentials and configuration. */
#include "fuzz.h"
#include <base/error.h>

#include <errno.h>
#include <load/s3/s3_config.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct s3_config c;
    const char *file = fuzz_file(data, size);
    setenv("AWS_SHARED_CREDENTIALS_FILE", file, 1);
    setenv("AWS_CONFIG_FILE", file, 1);
    setenv("AWS_PROFILE", "p", 1);
    int e = s3_config_read(&c, false);
    fuzz_must(e == 0 || (e == -EINVAL && *dd_errmsg()));
    if (e == 0) {
        fuzz_must(s3_region_good(c.region) && c.attempts > 0);
        fuzz_must(strlen(c.access) < sizeof c.access && strlen(c.token) < sizeof c.token);
        fuzz_must(strlen(c.endpoint) < sizeof c.endpoint && !strchr(c.endpoint, '\n'));
        s3_config_by_path(&c, "bucket");
    }
    s3_config_wipe(&c);
    return 0;
}
