/* SPDX-License-Identifier: BSD-3-Clause */
/* The processor's name and features, from /proc/cpuinfo. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/weir-rules.h"

/* The value of the first line that begins with one of two names; "" when there is none. To be freed. */
static char *cpuinfo(const char *name, const char *other)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char *line = NULL, *found = NULL;
    size_t size = 0;
    while (file && !found && getline(&line, &size, file) > 0)
        if (!strncmp(line, name, strlen(name)) || !strncmp(line, other, strlen(other))) {
            char *value = strchr(line, ':');
            line[strcspn(line, "\n")] = '\0';
            found = value ? strdup(value + 1 + (value[1] == ' ')) : NULL;
        }
    if (file)
        fclose(file);
    free(line);
    return found ? found : strdup("");
}

void processor_name(char *text, size_t size)
{
    char *value = cpuinfo("model name", "CPU part");
    snprintf(text, size, "%s", value && *value ? value : "unknown");
    free(value);
}

void processor_features(char *text, size_t size)
{
    static const char known[] = " sse4_2 avx avx2 fma f16c avx512f avx512bw avx512dq avx512vl avx512_bf16 avx512_fp16 "
                                "amx_bf16 asimd sve sve2 bf16 ";
    char *value = cpuinfo("flags", "Features"), *save = NULL;
    size_t used = 0;
    text[0] = '\0';
    for (char *word = value ? strtok_r(value, " ", &save) : NULL; word; word = strtok_r(NULL, " ", &save)) {
        char padded[64];
        snprintf(padded, sizeof padded, " %s ", word);
        if (strstr(known, padded) && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " " : "", word);
    }
    free(value);
}
