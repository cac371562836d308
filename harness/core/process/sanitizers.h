// SPDX-License-Identifier: Apache-2.0
// LOSSGRID_ASAN and LOSSGRID_TSAN: 1 in builds with the address or thread sanitizer, else 0. GCC
// has predefined macros for them, clang __has_feature.
#pragma once

#if defined(__has_feature)
#define LOSSGRID_HAS_FEATURE(name) __has_feature(name)
#else
#define LOSSGRID_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || LOSSGRID_HAS_FEATURE(address_sanitizer)
#define LOSSGRID_ASAN 1
#else
#define LOSSGRID_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || LOSSGRID_HAS_FEATURE(thread_sanitizer)
#define LOSSGRID_TSAN 1
#else
#define LOSSGRID_TSAN 0
#endif

// LOSSGRID_UNWATCHED precedes a function whose memory accesses the thread sanitizer ignores.
#if LOSSGRID_TSAN
#define LOSSGRID_UNWATCHED __attribute__((no_sanitize("thread"), noinline))
#else
#define LOSSGRID_UNWATCHED
#endif

#undef LOSSGRID_HAS_FEATURE
