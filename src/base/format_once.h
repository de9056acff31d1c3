#pragma once

#include <fmt/format.h>

// Formatting code is instantiated in one unit instead of every unit that formats, which took half
// of the compile time of many units. Part of the precompiled headers (cmake/precompiled.cmake).
extern template void fmt::detail::vformat_to<char>(
    fmt::detail::buffer<char>&, fmt::basic_string_view<char>,
    fmt::basic_format_args<fmt::buffer_context<char>>, fmt::detail::locale_ref);
