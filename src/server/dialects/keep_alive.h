#pragma once

#include <boost/json/value.hpp>
#include <optional>

namespace kvik {

// Returns the seconds of a `keep_alive`: a number, or a duration such as "1h30m". Negative: for
// ever. Nothing for other values.
std::optional<double> keep_alive_seconds(const boost::json::value& value);

}  // namespace kvik
