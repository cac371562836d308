// SPDX-License-Identifier: Apache-2.0
// Builds without the page.
#include "reports/html/html_page.h"

namespace lossgrid {

const char* const kHtmlTemplate = nullptr;

}  // namespace lossgrid
