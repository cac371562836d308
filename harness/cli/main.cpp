// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/command.h"

int main(int argc, char** argv) {
  return lossgrid::run_command_line(argc, argv);
}
