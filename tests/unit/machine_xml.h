/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine_xml.h - machines for tests as hwloc's XML: packages of NUMA nodes of cores of two
 * threads, and PCI devices where the test wants them. (hwloc's own synthetic topologies have no PCI
 * devices.) Thread 0 of core c is cpu c, thread 1 is cpu c + cores, as on most servers.
 */
#ifndef DDICT_TESTS_MACHINE_XML_H
#define DDICT_TESTS_MACHINE_XML_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MACHINE_DEVICES 24 /* and a zero at the end */
struct machine {
    const char *name;
    int packages, numas, cores; /* NUMA nodes of a package, cores of a NUMA node */
    /* latency to another NUMA node of the package, of another package; 0: the firmware says nothing
     * */
    int near, far;
    struct machine_device {
        int numa; /* where it hangs; -1: on the machine; -2 - p: on package p */
        unsigned bus, vendor, device, class_id;
        const char *net; /* name of the network interface that it is */
    } device[MACHINE_DEVICES];
};

static inline int machine_cores(const struct machine *m) {
    return m->packages * m->numas * m->cores;
}

/* hwloc's text for the threads of cores [first, first + n). */
static inline void machine_cpuset(const struct machine *m, FILE *f, const char *name, int first,
                                  int n) {
    unsigned words[64] = {0};
    int cpus = 2 * machine_cores(m), last = (cpus + 31) / 32 - 1;

    for (int c = first; c < first + n; c++) {
        words[c / 32] |= 1u << c % 32;
        words[(c + cpus / 2) / 32] |= 1u << (c + cpus / 2) % 32;
    }
    fprintf(f, " %s=\"", name);
    for (int w = last; w >= 0; w--)
        fprintf(f, "%s0x%08x", w == last ? "" : ",", words[w]);
    fprintf(f, "\"");
}

static inline void machine_sets(const struct machine *m, FILE *f, int numa, int n, int allowed) {
    static const char *const kinds[] = {"", "complete_", "allowed_"};
    unsigned long nodes = ((1ul << n) - 1) << numa;

    for (int k = 0; k < 2 + allowed; k++) {
        char name[32];

        snprintf(name, sizeof name, "%scpuset", kinds[k]);
        machine_cpuset(m, f, name, numa * m->cores, n * m->cores);
        fprintf(f, " %snodeset=\"0x%08lx\"", kinds[k], nodes);
    }
}

static inline void machine_devices(const struct machine *m, FILE *f, int at, int *gp) {
    unsigned low = 256, high = 0;

    for (const struct machine_device *d = m->device; d->vendor != 0; d++)
        if (d->numa == at) {
            low = d->bus < low ? d->bus : low;
            high = d->bus > high ? d->bus : high;
        }
    if (low > high)
        return;
    fprintf(f,
            "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"0-1\" depth=\"0\" "
            "bridge_pci=\"0000:[%02x-%02x]\">\n",
            (*gp)++, low, high);
    for (const struct machine_device *d = m->device; d->vendor != 0; d++) {
        if (d->numa != at)
            continue;
        fprintf(f,
                "<object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"0000:%02x:00.0\" "
                "pci_type=\"%04x [%04x:%04x] [0000:0000] a1\" pci_link_speed=\"0.0\">",
                (*gp)++, d->bus, d->class_id, d->vendor, d->device);
        if (d->net)
            fprintf(f, "<object type=\"OSDev\" gp_index=\"%d\" name=\"%s\" osdev_type=\"%d\"/>",
                    (*gp)++, d->net, strncmp(d->net, "mlx", 3) == 0 ? 3 : 2);
        fprintf(f, "</object>\n");
    }
    fprintf(f, "</object>\n");
}

static inline void machine_numa(const struct machine *m, FILE *f, int numa, int *gp) {
    int alone = m->numas == 1;

    if (!alone) {
        fprintf(f, "<object type=\"L3Cache\"");
        machine_sets(m, f, numa, 1, 0);
        fprintf(f,
                " gp_index=\"%d\" cache_size=\"33554432\" depth=\"3\" cache_linesize=\"64\" "
                "cache_associativity=\"16\" cache_type=\"0\">\n",
                (*gp)++);
    }
    fprintf(f, "<object type=\"NUMANode\" os_index=\"%d\"", numa);
    machine_sets(m, f, numa, 1, 0);
    fprintf(f,
            " gp_index=\"%d\" local_memory=\"68719476736\"><page_type size=\"4096\" "
            "count=\"16777216\"/></object>\n",
            (*gp)++);
    for (int c = numa * m->cores; c < (numa + 1) * m->cores; c++) {
        fprintf(f, "<object type=\"Core\" os_index=\"%d\"", c);
        machine_cpuset(m, f, "cpuset", c, 1);
        machine_cpuset(m, f, "complete_cpuset", c, 1);
        fprintf(f, " nodeset=\"0x%08lx\" complete_nodeset=\"0x%08lx\" gp_index=\"%d\">",
                1ul << numa, 1ul << numa, (*gp)++);
        for (int t = 0; t < 2; t++) {
            int cpu = c + t * machine_cores(m);
            char set[512] = "", *at = set;

            for (int w = cpu / 32; w >= 0; w--)
                at += sprintf(at, "%s0x%08x", w == cpu / 32 ? "" : ",",
                              w == cpu / 32 ? 1u << cpu % 32 : 0);
            fprintf(f,
                    "<object type=\"PU\" os_index=\"%d\" cpuset=\"%s\" complete_cpuset=\"%s\" "
                    "nodeset=\"0x%08lx\" complete_nodeset=\"0x%08lx\" gp_index=\"%d\"/>",
                    cpu, set, set, 1ul << numa, 1ul << numa, (*gp)++);
        }
        fprintf(f, "</object>\n");
    }
    if (!alone) {
        machine_devices(m, f, numa, gp);
        fprintf(f, "</object>\n");
    }
}

/* The text, to be freed. */
static inline char *machine_xml(const struct machine *m, size_t *len) {
    int numas = m->packages * m->numas, gp = 2;
    char *text = NULL;
    FILE *f = open_memstream(&text, len);

    fprintf(f,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM "
            "\"hwloc2.dtd\">\n<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\"");
    machine_sets(m, f, 0, numas, 1);
    fprintf(f, " gp_index=\"1\">\n");
    for (int p = 0; p < m->packages; p++) {
        fprintf(f, "<object type=\"Package\" os_index=\"%d\"", p);
        machine_sets(m, f, p * m->numas, m->numas, 0);
        fprintf(f, " gp_index=\"%d\">\n", gp++);
        for (int n = 0; n < m->numas; n++)
            machine_numa(m, f, p * m->numas + n, &gp);
        if (m->numas == 1)
            machine_devices(m, f, p, &gp);
        machine_devices(m, f, -2 - p, &gp);
        fprintf(f, "</object>\n");
    }
    machine_devices(m, f, -1, &gp);
    fprintf(f, "</object>\n");
    if (m->near != 0) {
        fprintf(f,
                "<distances2 type=\"NUMANode\" nbobjs=\"%d\" kind=\"5\" name=\"NUMALatency\" "
                "indexing=\"os\">\n",
                numas);
        for (int a = 0; a < numas; a++)
            fprintf(f, "<indexes length=\"%d\">%d </indexes>\n", snprintf(NULL, 0, "%d ", a), a);
        for (int a = 0; a < numas; a++)
            for (int b = 0; b < numas; b++)
                fprintf(f, "<u64values length=\"3\">%d </u64values>\n",
                        a == b                         ? 10
                        : a / m->numas == b / m->numas ? m->near
                                                       : m->far);
        fprintf(f, "</distances2>\n");
    }
    fprintf(f, "</topology>\n");
    fclose(f);
    return text;
}

#define NVIDIA(numa, bus) \
    { numa, bus, 0x10de, 0x20b0, 0x0302, NULL }
#define AMD(numa, bus) \
    { numa, bus, 0x1002, 0x7408, 0x0380, NULL }
#define INTEL(numa, bus) \
    { numa, bus, 0x8086, 0x0bd5, 0x0380, NULL }
#define NIC(numa, bus, name) \
    { numa, bus, 0x15b3, 0x101b, 0x0207, name }
/* a management controller's */
#define GRAPHICS(numa, bus) \
    { numa, bus, 0x1a03, 0x2000, 0x0300, NULL }

/* Patterns of machines that there are. */
static const struct machine machines[] = {
    /* two sockets, four GPUs each */
    {"8 GPUs, 2 NUMA nodes",
     2,
     1,
     16,
     21,
     21,
     {NVIDIA(0, 0x1a),
      NVIDIA(0, 0x1c),
      NVIDIA(0, 0x3d),
      NVIDIA(0, 0x3e),
      NVIDIA(1, 0x88),
      NVIDIA(1, 0x89),
      NVIDIA(1, 0xb1),
      NVIDIA(1, 0xb2),
      NIC(1, 0x90, "mlx5_0"),
      GRAPHICS(0, 0x03),
      {0, 0x04, 0x1002, 0x515e, 0x0300, NULL}}},
    /* four NUMA nodes a socket, pairs of GPUs near every other one, in no order */
    {"8 GPUs, 8 NUMA nodes, pairs",
     2,
     4,
     8,
     12,
     32,
     {NVIDIA(3, 0x07), NVIDIA(3, 0x0f), NVIDIA(1, 0x47), NVIDIA(1, 0x4e), NVIDIA(7, 0x87),
      NVIDIA(7, 0x90), NVIDIA(5, 0xb7), NVIDIA(5, 0xbd), NIC(5, 0xc0, "mlx5_0"),
      NIC(7, 0x98, "eth0"), GRAPHICS(2, 0x03)}},
    {"8 GPUs, 8 NUMA nodes, backwards",
     2,
     4,
     6,
     12,
     32,
     {NVIDIA(7, 0x07), NVIDIA(6, 0x0f), NVIDIA(5, 0x47), NVIDIA(4, 0x4e), NVIDIA(3, 0x87),
      NVIDIA(2, 0x90), NVIDIA(1, 0xb7), NVIDIA(0, 0xbd)}},
    /* one socket, four NUMA nodes, two dies of a GPU near each, the firmware says no latencies */
    {"8 dies, 4 NUMA nodes",
     1,
     4,
     16,
     0,
     0,
     {AMD(3, 0xc1), AMD(3, 0xc6), AMD(1, 0xc9), AMD(1, 0xce), AMD(0, 0xd1), AMD(0, 0xd6),
      AMD(2, 0xd9), AMD(2, 0xde), NIC(0, 0xf0, "hsn0")}},
    /* a virtual machine: nothing is known */
    {"4 GPUs, no NUMA",
     1,
     1,
     8,
     0,
     0,
     {NVIDIA(-1, 0x05), NVIDIA(-1, 0x06), NVIDIA(-1, 0x07), NVIDIA(-1, 0x08)}},
    /* all on one socket of two */
    {"5 GPUs on one socket",
     2,
     1,
     8,
     21,
     21,
     {NVIDIA(1, 0x81), NVIDIA(1, 0x82), NVIDIA(1, 0x83), NVIDIA(1, 0x84), NVIDIA(1, 0x85),
      NIC(0, 0x10, "eth0")}},
    {"16 GPUs, 2 NUMA nodes",
     2,
     1,
     24,
     21,
     21,
     {NVIDIA(0, 0x34), NVIDIA(0, 0x36), NVIDIA(0, 0x39), NVIDIA(0, 0x3b), NVIDIA(0, 0x57),
      NVIDIA(0, 0x59), NVIDIA(0, 0x5c), NVIDIA(0, 0x5e), NVIDIA(1, 0xb7), NVIDIA(1, 0xb9),
      NVIDIA(1, 0xbc), NVIDIA(1, 0xbe), NVIDIA(1, 0xe0), NVIDIA(1, 0xe2), NVIDIA(1, 0xe5),
      NVIDIA(1, 0xe7), NIC(0, 0x35, "mlx5_0"), NIC(1, 0xb8, "mlx5_1")}},
    /* small enough to be taken for the machine that the tests run on */
    {"4 GPUs, 2 NUMA nodes of 1 core",
     2,
     1,
     1,
     21,
     21,
     {NVIDIA(0, 0x05), NVIDIA(0, 0x06), NVIDIA(1, 0x85), NVIDIA(1, 0x86), NIC(1, 0x90, "eth0")}},
};
#define MACHINES ((int)(sizeof machines / sizeof machines[0]))

#endif
