/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads and stores that other threads and processes see, and the pause of a spinning loop. */
#ifndef WR_ATOMIC_H
#define WR_ATOMIC_H

#include <stdatomic.h>
#include <stdint.h>

/* Shared words are plain integers in mapped memory, so these take plain pointers (gcc and clang built-ins). */
#define wr_load_acquire(p)        __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define wr_load_relaxed(p)        __atomic_load_n((p), __ATOMIC_RELAXED)
#define wr_store_release(p, v)    __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define wr_store_relaxed(p, v)    __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define wr_add_acq_rel(p, v)      __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
#define wr_exchange_acq_rel(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)

/* Orders everything before against everything after. ThreadSanitizer knows no fences, only operations. */
static inline void wr_fence_full(void)
{
#if defined(__SANITIZE_THREAD__)
    unsigned word = 0;
    __atomic_exchange_n(&word, 1, __ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Orders earlier stores before later stores. */
static inline void wr_fence_release(void)
{
#if defined(__SANITIZE_THREAD__)
    wr_fence_full();
#else
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/* Orders earlier loads before later loads. */
static inline void wr_fence_acquire(void)
{
#if defined(__SANITIZE_THREAD__)
    wr_fence_full();
#else
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

/* Orders earlier streaming (non-temporal) stores before later stores. */
static inline void wr_fence_streaming(void)
{
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#else
    wr_fence_full();
#endif
}

/* Tells the core that this is a spinning loop. */
static inline void wr_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#else
    __asm__ __volatile__("" ::: "memory");
#endif
}

/* Asks for a cache line that will be written soon, so that the store does not wait for it. */
static inline void wr_prefetch_write(const void *at)
{
#if defined(__x86_64__)
    __asm__ __volatile__("prefetchw %0" ::"m"(*(const char *)at)); /* compilers emit it only where told that it is there: it always is */
#else
    __builtin_prefetch(at, 1);
#endif
}

#endif
