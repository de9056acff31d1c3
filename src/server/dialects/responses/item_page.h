#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string_view>

#include "base/result.h"

namespace kvik {

// Returns one page of a list of items for a query of OpenAI's clients: limit=1…100 (default: 20),
// order=asc or desc (default: newest first), after=ITEM_ID. Items without an id get one by their
// position, which does not change as a conversation grows. Errors: kInvalidArgument, with the field
// in `param`.
Result<boost::json::object> item_page(const boost::json::array& items, std::string_view query);

}  // namespace kvik
