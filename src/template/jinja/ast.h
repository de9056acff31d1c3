#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "template/jinja/value.h"

namespace kvik::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

// An argument of a call. `name` is empty for a positional argument. *items and **entries expand to
// several arguments.
struct Argument {
  enum class Spread : uint8_t { kNone, kItems, kEntries };
  std::string name;
  ExprPtr value;
  Spread spread = Spread::kNone;
};

struct Expr {
  enum class Kind : uint8_t {
    kLiteral,      // literal
    kName,         // name
    kList,         // children
    kTuple,        // children
    kDict,         // children: key, value, key, value …
    kAttribute,    // children[0].name
    kIndex,        // children[0][children[1]]
    kSlice,        // children[0][children[1]:children[2]:children[3]]; children 1 to 3 may be null
    kCall,         // children[0](arguments)
    kFilter,       // children[0] | name(arguments); no child in a {% filter %} or {% set %} block
    kTest,         // children[0] is name(arguments)
    kNot,          // children[0]
    kNegative,     // children[0]
    kPositive,     // children[0]
    kBinary,       // children[0] name children[1]
    kCompare,      // children[0] comparisons[0] children[1] comparisons[1] …
    kAnd,          // children[0], children[1]
    kOr,           // children[0], children[1]
    kConditional,  // children[0] if children[1] else children[2], which may be null
  };
  Kind kind;
  uint32_t line = 0;
  uint32_t depth = 1;
  std::string name = {};
  Value literal = {};
  std::vector<ExprPtr> children = {};
  std::vector<Argument> arguments = {};
  std::vector<Comparison> comparisons = {};
};

struct Statement;
using Body = std::vector<std::unique_ptr<const Statement>>;

// Bits for the names that a macro can use without declaring them. A bit is set if the macro's body
// reads the name.
enum ImplicitName : uint8_t { kCaller = 1, kVarargs = 2, kKwargs = 4 };

struct Parameter {
  std::string name;
  ExprPtr otherwise;  // may be null
};

struct Statement {
  enum class Kind : uint8_t {
    kText,       // text
    kOutput,     // expr
    kIf,         // conditions and bodies; an additional body is the else branch
    kFor,        // for targets in expr if condition: bodies[0] else bodies[1]
    kSet,        // targets = expr
    kSetBlock,   // targets = bodies[0] through the filters of expr, which may be null
    kMacro,      // name(parameters): bodies[0]
    kCallBlock,  // expr with the macro caller(parameters): bodies[0]
    kFilter,     // bodies[0] through the filters of expr
    kWith,       // targets[i] = conditions[i]: bodies[0]
    kGroup,      // bodies[0] in a separate scope: {% generation %}
    kBreak,
    kContinue,
  };
  Kind kind;
  uint32_t line = 0;
  std::string text = {};
  ExprPtr expr = {};
  ExprPtr condition = {};
  std::vector<ExprPtr> conditions = {};
  std::vector<Body> bodies = {};
  // Assignment targets: names or "ns.attribute". There are several if a tuple is unpacked.
  std::vector<std::string> targets = {};
  std::string name = {};
  std::vector<Parameter> parameters = {};
  uint8_t implicit_names = 0;
  bool is_recursive = false;
};

// Parses a template with Jinja's grammar as Hugging Face configures it. Templates that include
// others are not supported. Error: kCorrupt with the line number, also for nesting deeper than
// kMaxDepth.
Result<Body> parse_template(std::string_view source);

inline constexpr uint32_t kMaxDepth = 200;

// Increments the recursion depth during its lifetime.
class DepthGuard {
 public:
  explicit DepthGuard(uint32_t& depth) : depth_(depth) { ++depth_; }
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;

 private:
  uint32_t& depth_;
};

}  // namespace kvik::jinja
