# SPDX-License-Identifier: Apache-2.0
# Installs the completion of bash and zsh and the manual page, as the executable itself prints them.
set(shell_files ${PROJECT_BINARY_DIR}/generated/shell)
function(install_printed words file folder)
  install(CODE "file(MAKE_DIRECTORY \"${shell_files}\")
execute_process(COMMAND \"$<TARGET_FILE:lossgrid>\" ${words}
                OUTPUT_FILE \"${shell_files}/${file}\" COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${shell_files}/${file} DESTINATION ${folder})
endfunction()
install_printed("completion bash" lossgrid share/bash-completion/completions)
install_printed("completion zsh" _lossgrid share/zsh/site-functions)
install_printed("help --man" lossgrid.1 share/man/man1)
