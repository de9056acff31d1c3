#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace kvik {

// Reads the typed members of an object. Subclasses are kinds of documents with errors of their own:
// files (JsonObject) and requests (JsonFields of the server). A null member counts as absent.
// Borrows the object and stores its path in the document ("rope_scaling").
class JsonReader {
 public:
  const boost::json::object& all() const { return *object_; }
  // Returns null if the member is absent.
  const boost::json::value* find(std::string_view key) const;

  // Each of these is empty or null if the member is absent. Errors: those of the document for a
  // value of another type.
  Result<std::optional<bool>> flag(std::string_view key) const;
  Result<std::optional<std::string>> text(std::string_view key) const;
  Result<const boost::json::array*> list(std::string_view key) const;

  // Returns "model.vocab" or "model.vocab[2]", for errors.
  std::string path_of(std::string_view key) const;
  std::string path_of(std::string_view key, size_t i) const;

 protected:
  JsonReader(const boost::json::object& object, std::string path)
      : object_(&object), path_(std::move(path)) {}
  JsonReader(const JsonReader&) = default;
  JsonReader& operator=(const JsonReader&) = default;
  ~JsonReader() = default;

  Result<const boost::json::object*> object_at(std::string_view key) const;

  enum class Type { kFlag, kText, kList, kObject };
  // Returns the error that the member does not have this type.
  virtual std::unexpected<Error> wrong_type(std::string_view key, Type expected) const = 0;

 private:
  const boost::json::object* object_;
  std::string path_;
};

}  // namespace kvik
