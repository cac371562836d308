// SPDX-License-Identifier: Apache-2.0
// SharedLibrary: a library that is loaded at run time and stays loaded, so that one executable
// starts on machines with and without it.
#pragma once

#include <string>

namespace lossgrid {

class SharedLibrary {
 public:
  /// Loads a library by its path or its name. Throws unsupported with the loader's text.
  explicit SharedLibrary(std::string path);

  bool has(const char* name) const { return find_symbol(name) != nullptr; }
  /// Sets `function` to the function called `name`. Throws unsupported if the library lacks it.
  template <typename Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(find_symbol(name));
    if (function == nullptr) throw_missing(name);
  }

 private:
  void* find_symbol(const char* name) const;
  [[noreturn]] void throw_missing(const char* name) const;

  std::string path_;
  void* library_;
};

}  // namespace lossgrid
