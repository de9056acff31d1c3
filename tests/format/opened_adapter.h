#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "format/adapter/peft_adapter.h"
#include "format/safetensors.h"
#include "support/adapter_files.h"

namespace kvik {

// An opened adapter source and the bytes that it reads.
struct Opened {
  std::vector<std::byte> bytes;
  Result<std::unique_ptr<AdapterSource>> source;

  // Returns the error message, or an empty string if it was read.
  std::string refusal() const { return source ? "" : source.error().message; }
};

inline Opened open_peft(const std::string& json, const SafetensorsWriter& file,
                        const std::string& preset = "test-llama:f32") {
  Opened opened{file.bytes(), fail(ErrorCode::kIo, "")};
  const auto config = read_peft_config(json);
  if (!config) {
    opened.source = fail(config.error().code, config.error().message);
    return opened;
  }
  auto tensors = open_safetensors_bytes("adapter", opened.bytes);
  EXPECT_TRUE(tensors.has_value()) << (tensors ? "" : tensors.error().message);
  opened.source =
      read_peft_adapter(*config, std::move(*tensors), "adapter", config_of(preset), 1.0f);
  return opened;
}

}  // namespace kvik
