#pragma once

#include <memory>

#include "base/result.h"
#include "text/hf/fields.h"
#include "text/hf/normalizer.h"

namespace kvik::hf {

// BERT's: without controls, blanks around Chinese characters, small letters without accents, as the
// flags say.
Result<std::unique_ptr<Normalizer>> read_bert_normalizer(const Fields& fields);

}  // namespace kvik::hf
