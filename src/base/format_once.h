#pragma once

#include <fmt/format.h>

// What writes formatted text is compiled into one unit, not into every unit that formats: it took
// half of many a unit's time. Part of the headers that are parsed beforehand
// (cmake/precompiled.cmake).
extern template void fmt::detail::vformat_to<char>(
    fmt::detail::buffer<char>&, fmt::basic_string_view<char>,
    fmt::basic_format_args<fmt::buffer_context<char>>, fmt::detail::locale_ref);
