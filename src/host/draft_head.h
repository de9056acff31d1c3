#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/result.h"
#include "format/model_source.h"

namespace kvik {

// Value of --draft that leaves out the MTP head and everything else that drafts with a model.
inline constexpr const char* kNoDraft = "none";

// A request for a drafter, as given on the command line.
struct DraftRequest {
  std::string draft = {};  // --draft: a draft model, a head or kNoDraft; empty: automatic
  std::string model = {};  // argument of open_model()
  bool speculates = true;  // false: no head is looked for, and one that is named drafts nothing
};

// Prepares the source of a model for what drafts: adds a head that is stored apart (an EAGLE-3
// head, Gemma 4's assistant or a file of MTP layers), which replaces `source`, or leaves out the
// model's MTP head if something else drafts or nothing does. Without --draft, a head beside the
// model is used: for a folder, a folder in it whose name contains "eagle3" or "assistant", or one
// next to it whose name also begins with the model's; for a GGUF file, a file or folder next to it
// with such a name; or a file of the model's MTP layers whose name begins with "mtp-", if the model
// has none. Logs which one. Returns the draft model that remains to be loaded (load_draft());
// empty: none. Errors: those of with_eagle_head() and with_assistant() for a head that --draft
// names; another head that does not fit, or that `backend` cannot compute, is not used, with a
// warning.
Result<std::string> add_draft_head(const DraftRequest& request, const Backend& backend,
                                   std::unique_ptr<ModelSource>& source);

}  // namespace kvik
