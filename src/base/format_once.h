#pragma once

#include <fmt/format.h>

// Instantiates the formatting code in one unit. Instantiating it in every unit that formats took
// half of the compile time of many units. Part of the precompiled headers
// (cmake/precompiled.cmake).
extern template void fmt::detail::vformat_to<char>(
    fmt::detail::buffer<char>&, fmt::basic_string_view<char>,
    fmt::basic_format_args<fmt::buffer_context<char>>, fmt::detail::locale_ref);
