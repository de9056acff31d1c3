#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string_view>

#include "base/result.h"

namespace kvik {

// Items as one page of a list, as OpenAI's clients ask for it in a query: limit=1…100 (default:
// 20), order=asc or desc (the default: the newest first), after=ITEM_ID. Items without an id get
// one by their place, which does not change as a conversation goes on. Errors: kInvalidArgument,
// with the field in `param`.
Result<boost::json::object> item_page(const boost::json::array& items, std::string_view query);

}  // namespace kvik
