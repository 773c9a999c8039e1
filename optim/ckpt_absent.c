/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of checkpoints where weir was built without the libraries that they need. */
#include <weir/zero_ckpt.h>

#include "base/error.h"

static weir_status absent(weir_error *error)
{
    return wr_error_set(error, WEIR_ERR_UNSUPPORTED,
                        "install the development packages of jansson and xxhash and build weir again",
                        "checkpoints are not supported: weir was built without jansson or xxhash");
}

weir_status weir_ckpt_open(weir_comm *comm, const char *folder, const weir_ckpt_options *options, weir_ckpt **ckpt,
                           weir_error *error)
{
    (void)comm;
    (void)folder;
    (void)options;
    (void)ckpt;
    return absent(error);
}

weir_status weir_ckpt_close(weir_ckpt *ckpt)
{
    (void)ckpt;
    return absent(NULL);
}

weir_status weir_ckpt_save(weir_ckpt *ckpt, const weir_ckpt_content *content, weir_error *error)
{
    (void)ckpt;
    (void)content;
    return absent(error);
}

weir_status weir_ckpt_isave(weir_ckpt *ckpt, const weir_ckpt_content *content, weir_error *error)
{
    (void)ckpt;
    (void)content;
    return absent(error);
}

weir_status weir_ckpt_test(weir_ckpt *ckpt, weir_error *error)
{
    (void)ckpt;
    return absent(error);
}

weir_status weir_ckpt_wait(weir_ckpt *ckpt, weir_error *error)
{
    (void)ckpt;
    return absent(error);
}

weir_status weir_ckpt_list(const char *folder, weir_ckpt_info *infos, size_t room, size_t *count, weir_error *error)
{
    (void)folder;
    (void)infos;
    (void)room;
    (void)count;
    return absent(error);
}

weir_status weir_ckpt_source_open(const char *path, uint64_t step, weir_ckpt_source **source, weir_error *error)
{
    (void)path;
    (void)step;
    (void)source;
    return absent(error);
}

weir_status weir_ckpt_resume(weir_ckpt *ckpt, uint64_t step, weir_ckpt_source **source, weir_error *error)
{
    (void)ckpt;
    (void)step;
    (void)source;
    return absent(error);
}

void weir_ckpt_source_close(weir_ckpt_source *source)
{
    (void)source;
}

weir_status weir_ckpt_source_info(const weir_ckpt_source *source, weir_ckpt_info *info)
{
    (void)source;
    (void)info;
    return absent(NULL);
}

weir_status weir_ckpt_source_tensor(const weir_ckpt_source *source, uint64_t index, weir_ckpt_tensor *tensor)
{
    (void)source;
    (void)index;
    (void)tensor;
    return absent(NULL);
}

weir_status weir_ckpt_source_find(const weir_ckpt_source *source, const char *name, weir_ckpt_tensor *tensor)
{
    (void)source;
    (void)name;
    (void)tensor;
    return absent(NULL);
}

weir_status weir_ckpt_source_read(weir_ckpt_source *source, const weir_ckpt_tensor *ranges, size_t n, weir_error *error)
{
    (void)source;
    (void)ranges;
    (void)n;
    return absent(error);
}

weir_status weir_ckpt_source_entry(const weir_ckpt_source *source, const char *key, weir_ckpt_entry *entry)
{
    (void)source;
    (void)key;
    (void)entry;
    return absent(NULL);
}

const char *weir_ckpt_source_key(const weir_ckpt_source *source, uint64_t index)
{
    (void)source;
    (void)index;
    return NULL;
}

weir_status weir_ckpt_source_verify(weir_ckpt_source *source, uint64_t *checked, weir_error *error)
{
    (void)source;
    (void)checked;
    return absent(error);
}

weir_status weir_ckpt_export(weir_ckpt_source *source, const char *file, const weir_ckpt_filter *filter,
                             weir_error *error)
{
    (void)source;
    (void)file;
    (void)filter;
    return absent(error);
}

weir_status weir_ckpt_import(weir_ckpt_source *source, const char *folder, uint64_t step,
                             const weir_ckpt_filter *filter, weir_error *error)
{
    (void)source;
    (void)folder;
    (void)step;
    (void)filter;
    return absent(error);
}

weir_status weir_zero_save(weir_zero *zero, weir_ckpt *ckpt, const weir_ckpt_content *more, uint64_t flags,
                           weir_error *error)
{
    (void)zero;
    (void)ckpt;
    (void)more;
    (void)flags;
    return absent(error);
}

weir_status weir_zero_load(weir_zero *zero, weir_ckpt *ckpt, uint64_t step, uint64_t flags, weir_ckpt_source **source,
                           weir_error *error)
{
    (void)zero;
    (void)ckpt;
    (void)step;
    (void)flags;
    (void)source;
    return absent(error);
}
