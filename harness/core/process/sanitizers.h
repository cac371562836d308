// SPDX-License-Identifier: Apache-2.0
// LOSSGRID_ASAN and LOSSGRID_TSAN: 1 in builds with the sanitizer of addresses or threads, else 0,
// for GCC, which predefines macros, and clang, which has features.
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

// LOSSGRID_UNWATCHED stands before a function whose accesses to memory the sanitizer of threads
// leaves out.
#if LOSSGRID_TSAN
#define LOSSGRID_UNWATCHED __attribute__((no_sanitize("thread"), noinline))
#else
#define LOSSGRID_UNWATCHED
#endif

#undef LOSSGRID_HAS_FEATURE
