// SPDX-License-Identifier: Apache-2.0
// Calls of functions of a plugin: error codes and escaping C++ exceptions become an Error.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "harness/core/error.h"
#include "lossgrid/plugin.h"

namespace lossgrid {

/// Calls f() and returns its result. Throws rank_failed for an exception from f.
template <typename F>
auto call_plainly(F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::not_enough_memory, "std::bad_alloc left the plugin");
  } catch (const std::exception& exception) {
    throw Error(ErrorCode::rank_failed,
                fmt::format("a C++ exception left the plugin: {}", exception.what()));
  } catch (...) {
    throw Error(ErrorCode::rank_failed, "a C++ exception left the plugin, no std::exception");
  }
}

/// Calls f(error), which returns a code. Throws rank_failed or not_enough_memory with the text in
/// `error`.
template <typename F>
void call_plugin(F&& f) {
  lossgrid_error error{};
  error.struct_size = sizeof(error);
  const int code = call_plainly([&] { return f(&error); });
  if (code == LOSSGRID_OK) return;
  error.text[sizeof(error.text) - 1] = 0;
  std::string text = error.text;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  if (text.empty()) text = fmt::format("code {} without a text", code);
  throw Error(
      code == LOSSGRID_OUT_OF_MEMORY ? ErrorCode::not_enough_memory : ErrorCode::rank_failed, text);
}

}  // namespace lossgrid
