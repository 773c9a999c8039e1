/* SPDX-License-Identifier: BSD-3-Clause */
/* The table and the JSON. In JSON, parts print one object a line, and who started them puts them together. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "perf/weir-p2p.h"

static const char *const method_names[METHODS] = {"message", "put", "get"};
static bool begun; /* a row was printed */

void print_head(const struct options *o)
{
    struct utsname name;
    bool known = !uname(&name);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (o->part)
        return;
    if (o->json) {
        printf(
            "{\n  \"weir\": \"%s\",\n  \"kernel\": \"%s\",\n  \"machine\": \"%s\",\n  \"cpus\": %ld,\n  \"results\": [",
            weir_version(), known ? name.release : "", known ? name.machine : "", cores);
        return;
    }
    printf("# weir-p2p %s on %ld cpus, Linux %s %s\n", weir_version(), cores, known ? name.release : "",
           known ? name.machine : "");
    puts(
        "# latency: one way (get: until the data is there), microseconds, median and p99; bandwidth: GB/s, median.\n"
        "# Behind each what the reference reaches in the same run, and weir's share of it: latency above 1 is slower,\n"
        "# bandwidth below 1 is slower. On the node buffers rotate; between nodes there is one, as in the bare tools.");
    printf("%-9s %-12s %9s %-8s %9s %9s %9s %7s %9s %9s %7s  %s\n", "transport", "provider", "bytes", "operation",
           "latency", "p99", "reference", "ratio", "bandwidth", "reference", "ratio", "reference");
    fflush(stdout);
}

static const char *number(char *text, size_t size, double value)
{
    if (value > 0)
        snprintf(text, size, value < 0.1 ? "%.5f" : value < 10 ? "%.3f" : value < 1000 ? "%.2f" : "%.0f", value);
    else
        snprintf(text, size, "-");
    return text;
}

static double ratio(double ours, double theirs)
{
    return ours > 0 && theirs > 0 ? ours / theirs : 0;
}

static void json_number(const char *name, double value)
{
    if (value > 0)
        printf(", \"%s\": %.6g", name, value);
    else
        printf(", \"%s\": null", name);
}

void print_line(const struct options *o, const char *line)
{
    if (o->json)
        printf("%s\n    %s", begun ? "," : "", line);
    else
        puts(line);
    begun = true;
    fflush(stdout);
}

static void print_json(const struct options *o, const struct row *r)
{
    if (!o->part)
        printf("%s\n    ", begun ? "," : "");
    begun = true;
    printf("{\"transport\": \"%s\", \"provider\": \"%s\", \"bytes\": %llu, \"operation\": \"%s\"", r->transport,
           r->provider, (unsigned long long)r->bytes, method_names[r->method]);
    json_number("latency_us", r->weir.latency_us);
    json_number("latency_p99_us", r->weir.p99_us);
    json_number("reference_latency_us", r->reference.latency_us);
    json_number("latency_ratio", ratio(r->weir.latency_us, r->reference.latency_us));
    json_number("bandwidth_gb_s", r->weir.gb_s);
    json_number("reference_bandwidth_gb_s", r->reference.gb_s);
    json_number("bandwidth_ratio", ratio(r->weir.gb_s, r->reference.gb_s));
    printf(", \"reference\": \"%s\"}%s", r->reference_name, o->part ? "\n" : "");
}

void print_row(const struct options *o, const struct row *r)
{
    char latency[24], p99[24], bare[24], share[24], rate[24], bare_rate[24], rate_share[24];
    if (o->json) {
        print_json(o, r);
    } else {
        printf("%-9s %-12s %9llu %-8s %9s %9s %9s %7s %9s %9s %7s  %s\n", r->transport, r->provider,
               (unsigned long long)r->bytes, method_names[r->method],
               number(latency, sizeof latency, r->weir.latency_us), number(p99, sizeof p99, r->weir.p99_us),
               number(bare, sizeof bare, r->reference.latency_us),
               number(share, sizeof share, ratio(r->weir.latency_us, r->reference.latency_us)),
               number(rate, sizeof rate, r->weir.gb_s), number(bare_rate, sizeof bare_rate, r->reference.gb_s),
               number(rate_share, sizeof rate_share, ratio(r->weir.gb_s, r->reference.gb_s)), r->reference_name);
    }
    fflush(stdout);
}

void print_foot(const struct options *o)
{
    if (o->json && !o->part)
        puts("\n  ]\n}");
    fflush(stdout);
}
