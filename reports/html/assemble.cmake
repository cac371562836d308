# SPDX-License-Identifier: Apache-2.0
# Assembly of the page: inserts the files that page.html includes and writes it as a C++ string.
#   cmake -DPAGE=page.html -DCHART=chart.min.js -DOUT=html_template.cpp -P assemble.cmake
# A line "@include NAME@" names a file beside the page, or the library of charts.
get_filename_component(folder ${PAGE} DIRECTORY)
file(READ ${PAGE} page)
string(REGEX MATCHALL "@include [a-z_.]+@" includes "${page}")
foreach(include IN LISTS includes)
  string(REGEX REPLACE "@include (.*)@" "\\1" name ${include})
  if(name STREQUAL "chart.min.js")
    file(READ ${CHART} text)
  else()
    file(READ ${folder}/${name} text)
  endif()
  string(REPLACE "${include}" "${text}" page "${page}")
endforeach()

string(CONCAT code "// Made by reports/html/assemble.cmake.\n#include \"reports/html/html_page.h\"\n\n"
              "namespace lossgrid {\n\nconst char* const kHtmlTemplate = R\"lossgrid("
              "${page})lossgrid\";\n\n}  // namespace lossgrid\n")
file(WRITE ${OUT} "${code}")
