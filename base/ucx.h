/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX, loaded when it is first used: linked, it would be initialised in every process, used or not, and hook the C library's
 * functions for memory. Here it is told not to (UCX_MEM_MMAP_HOOK_MODE=none, unless the user has a value there): what weir
 * unmaps it deregisters itself. Include this instead of UCX's own headers, and call wr_ucx_load() before anything else: the
 * names of UCX's functions then mean the loaded ones.
 */
#ifndef WR_UCX_LIBRARY_H
#define WR_UCX_LIBRARY_H

#define ucp_init_version wr_ucx_init_version /* what ucp_init() calls in UCX's header */
#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

/* Requests in the caller's memory; -DUCX_API_NBX=0 tries the older form. */
#ifndef UCX_API_NBX
#define UCX_API_NBX (UCP_API_VERSION >= UCP_VERSION(1, 10))
#endif

/* Loads UCX. Returns NULL, or why it cannot be loaded (for ever). Thread safe. */
const char *wr_ucx_load(void);

#define WR_UCX_FUNCTIONS(X)                                                                                            \
    X(ucp_cleanup)                                                                                                     \
    X(ucp_config_modify)                                                                                               \
    X(ucp_config_read)                                                                                                 \
    X(ucp_config_release)                                                                                              \
    X(ucp_context_query)                                                                                               \
    X(ucp_ep_close_nb)                                                                                                 \
    X(ucp_ep_create)                                                                                                   \
    X(ucp_ep_print_info)                                                                                               \
    X(ucp_ep_rkey_unpack)                                                                                              \
    X(ucp_get_version)                                                                                                 \
    X(ucp_mem_map)                                                                                                     \
    X(ucp_mem_unmap)                                                                                                   \
    X(ucp_request_free)                                                                                                \
    X(ucp_rkey_buffer_release)                                                                                         \
    X(ucp_rkey_destroy)                                                                                                \
    X(ucp_rkey_pack)                                                                                                   \
    X(ucp_worker_arm)                                                                                                  \
    X(ucp_worker_create)                                                                                               \
    X(ucp_worker_destroy)                                                                                              \
    X(ucp_worker_fence)                                                                                                \
    X(ucp_worker_get_efd)                                                                                              \
    X(ucp_worker_progress)                                                                                             \
    X(ucp_worker_query)                                                                                                \
    X(ucp_worker_release_address)                                                                                      \
    X(ucs_status_string)                                                                                               \
    X(uct_component_query)                                                                                             \
    X(uct_config_release)                                                                                              \
    X(uct_md_close)                                                                                                    \
    X(uct_md_config_read)                                                                                              \
    X(uct_md_open)                                                                                                     \
    X(uct_md_query_tl_resources)                                                                                       \
    X(uct_query_components)                                                                                            \
    X(uct_release_component_list)                                                                                      \
    X(uct_release_tl_resource_list)
#if UCX_API_NBX
#define WR_UCX_FUNCTIONS_OF_FORM(X)                                                                                    \
    X(ucp_am_send_nbx)                                                                                                 \
    X(ucp_ep_flush_nbx)                                                                                                \
    X(ucp_get_nbx)                                                                                                     \
    X(ucp_put_nbx)                                                                                                     \
    X(ucp_worker_flush_nbx)                                                                                            \
    X(ucp_worker_set_am_recv_handler)
#else
#define WR_UCX_FUNCTIONS_OF_FORM(X)                                                                                    \
    X(ucp_am_send_nb)                                                                                                  \
    X(ucp_ep_flush_nb)                                                                                                 \
    X(ucp_get_nb)                                                                                                      \
    X(ucp_put_nb)                                                                                                      \
    X(ucp_worker_flush_nb)                                                                                             \
    X(ucp_worker_set_am_handler)
#endif

/* Pointers to them, set by wr_ucx_load(). */
#define WR_UCX_POINTER(name) __typeof__(name) *name;
struct wr_ucx_functions {
    WR_UCX_FUNCTIONS(WR_UCX_POINTER)
    WR_UCX_FUNCTIONS_OF_FORM(WR_UCX_POINTER)
};
extern struct wr_ucx_functions wr_ucx;

#define ucp_cleanup                  wr_ucx.ucp_cleanup
#define ucp_config_modify            wr_ucx.ucp_config_modify
#define ucp_config_read              wr_ucx.ucp_config_read
#define ucp_config_release           wr_ucx.ucp_config_release
#define ucp_context_query            wr_ucx.ucp_context_query
#define ucp_ep_close_nb              wr_ucx.ucp_ep_close_nb
#define ucp_ep_create                wr_ucx.ucp_ep_create
#define ucp_ep_print_info            wr_ucx.ucp_ep_print_info
#define ucp_ep_rkey_unpack           wr_ucx.ucp_ep_rkey_unpack
#define ucp_get_version              wr_ucx.ucp_get_version
#define ucp_mem_map                  wr_ucx.ucp_mem_map
#define ucp_mem_unmap                wr_ucx.ucp_mem_unmap
#define ucp_request_free             wr_ucx.ucp_request_free
#define ucp_rkey_buffer_release      wr_ucx.ucp_rkey_buffer_release
#define ucp_rkey_destroy             wr_ucx.ucp_rkey_destroy
#define ucp_rkey_pack                wr_ucx.ucp_rkey_pack
#define ucp_worker_arm               wr_ucx.ucp_worker_arm
#define ucp_worker_create            wr_ucx.ucp_worker_create
#define ucp_worker_destroy           wr_ucx.ucp_worker_destroy
#define ucp_worker_fence             wr_ucx.ucp_worker_fence
#define ucp_worker_get_efd           wr_ucx.ucp_worker_get_efd
#define ucp_worker_progress          wr_ucx.ucp_worker_progress
#define ucp_worker_query             wr_ucx.ucp_worker_query
#define ucp_worker_release_address   wr_ucx.ucp_worker_release_address
#define ucs_status_string            wr_ucx.ucs_status_string
#define uct_component_query          wr_ucx.uct_component_query
#define uct_config_release           wr_ucx.uct_config_release
#define uct_md_close                 wr_ucx.uct_md_close
#define uct_md_config_read           wr_ucx.uct_md_config_read
#define uct_md_open                  wr_ucx.uct_md_open
#define uct_md_query_tl_resources    wr_ucx.uct_md_query_tl_resources
#define uct_query_components         wr_ucx.uct_query_components
#define uct_release_component_list   wr_ucx.uct_release_component_list
#define uct_release_tl_resource_list wr_ucx.uct_release_tl_resource_list
#if UCX_API_NBX
#define ucp_am_send_nbx                wr_ucx.ucp_am_send_nbx
#define ucp_ep_flush_nbx               wr_ucx.ucp_ep_flush_nbx
#define ucp_get_nbx                    wr_ucx.ucp_get_nbx
#define ucp_put_nbx                    wr_ucx.ucp_put_nbx
#define ucp_worker_flush_nbx           wr_ucx.ucp_worker_flush_nbx
#define ucp_worker_set_am_recv_handler wr_ucx.ucp_worker_set_am_recv_handler
#else
#define ucp_am_send_nb            wr_ucx.ucp_am_send_nb
#define ucp_ep_flush_nb           wr_ucx.ucp_ep_flush_nb
#define ucp_get_nb                wr_ucx.ucp_get_nb
#define ucp_put_nb                wr_ucx.ucp_put_nb
#define ucp_worker_flush_nb       wr_ucx.ucp_worker_flush_nb
#define ucp_worker_set_am_handler wr_ucx.ucp_worker_set_am_handler
#endif

#endif
