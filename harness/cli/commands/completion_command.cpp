// SPDX-License-Identifier: Apache-2.0
// lossgrid completion: scripts by which a shell completes command lines. They ask this program for
// the words, so they work with every version of it.
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/flags/allowed_values.h"
#include "harness/cli/text/completion_words.h"
#include "harness/cli/text/output.h"

namespace lossgrid {
namespace {

constexpr const char* kBash = R"(# bash completion of lossgrid
_lossgrid() {
  local IFS=$'\n'
  COMPREPLY=($("${COMP_WORDS[0]/#\~/$HOME}" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o nosort -F _lossgrid lossgrid
)";

constexpr const char* kZsh = R"(#compdef lossgrid
_lossgrid() {
  local -a found
  found=("${(@f)$(${(Q)words[1]} completion words -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n $found ]]; then
    compadd -- $found
  else
    _files
  fi
}
if [[ $funcstack[1] == _lossgrid ]]; then
  _lossgrid "$@"
else
  compdef _lossgrid lossgrid
fi
)";

ExitCode run(const CLI::App& app, const std::string& what, const std::vector<std::string>& words) {
  if (what == "words") {
    for (const std::string& word : completion_words(app, words)) print("{}\n", word);
  } else {
    print_text(what == "bash" ? kBash : kZsh);
  }
  return ExitCode::ok;
}

}  // namespace

void add_completion_command(CLI::App& app, Action& action) {
  auto what = std::make_shared<std::string>();
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      app.add_subcommand("completion", "print a script by which a shell completes command lines");
  command
      ->add_option("what", *what,
                   "the shell; words: those that complete the last of the words behind --, which "
                   "the scripts ask for")
      ->required()
      ->check(allowed_values({"bash", "zsh", "words"}));
  command->add_option("words", *words, "the begin of a command line, behind lossgrid");
  command->footer(
      "bash: source <(lossgrid completion bash). zsh: source <(lossgrid completion zsh), behind "
      "compinit.");
  command->callback([&app, what, words, &action] {
    action = [&app, what, words] { return run(app, *what, *words); };
  });
}

}  // namespace lossgrid
