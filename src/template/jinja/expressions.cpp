#include <algorithm>

#include "template/jinja/interpreter.h"

namespace kvik::jinja {
namespace {

using Kind = Expr::Kind;

}  // namespace

Result<Value> Interpreter::eval(const Expr& expr) {
  TRY(runtime_.charge(1));
  const DepthGuard deeper(depth_);
  if (depth_ > runtime_.max_depth()) {
    return fail(ErrorCode::kExhausted,
                fmt::format("the chat template nests more than {} deep", runtime_.max_depth()));
  }
  auto value = eval_kind(expr);
  if (value && value->extent().depth > kMaxValueDepth) return wrong("values nest too deep");
  return value;
}

Result<Value> Interpreter::eval_kind(const Expr& expr) {
  switch (expr.kind) {
    case Kind::kLiteral:
      return expr.literal;
    case Kind::kName:
      return name(expr);
    case Kind::kList:
    case Kind::kTuple:
      return collection(expr);
    case Kind::kDict:
      return dict(expr);
    case Kind::kAttribute:
    case Kind::kIndex:
      return access(expr);
    case Kind::kSlice:
      return sliced(expr);
    case Kind::kCall:
      return call(expr);
    case Kind::kFilter:
      return filtered(expr);
    case Kind::kTest:
      return tested(expr);
    case Kind::kNegative:
    case Kind::kPositive:
      return sign(expr);
    case Kind::kCompare:
      return compare(expr);
    case Kind::kNot:
    case Kind::kAnd:
    case Kind::kOr:
      return logical(expr);
    case Kind::kConditional:
      return conditional(expr);
    case Kind::kBinary: {
      TRY_ASSIGN(const Value left, eval(*expr.children[0]));
      TRY_ASSIGN(const Value right, eval(*expr.children[1]));
      return binary(runtime_, expr.name, left, right);
    }
  }
  return Value();
}

Result<Value> Interpreter::name(const Expr& expr) {
  if (const Value* found = scope_->find(expr.name)) return *found;
  if (is_global(expr.name)) return Value(Function{expr.name, nullptr});
  return Value(Undefined{expr.name});
}

Result<Value> Interpreter::collection(const Expr& expr) {
  std::vector<Value> items;
  for (const ExprPtr& child : expr.children) {
    TRY_ASSIGN(Value item, eval(*child));
    items.push_back(std::move(item));
  }
  return expr.kind == Kind::kTuple ? make_tuple(std::move(items)) : make_list(std::move(items));
}

Result<Value> Interpreter::dict(const Expr& expr) {
  Dict made;
  for (size_t i = 0; i < expr.children.size(); i += 2) {
    TRY_ASSIGN(Value key, eval(*expr.children[i]));
    TRY_ASSIGN(Value value, eval(*expr.children[i + 1]));
    TRY(runtime_.charge(made.entries.size() / 16));
    if (!is_hashable(key)) {
      return wrong("a {} cannot be a key", type_name(key));
    }
    set_entry(made, std::move(key), std::move(value));
  }
  return Value(std::move(made));
}

Result<Value> Interpreter::access(const Expr& expr) {
  TRY_ASSIGN(const Value value, eval(*expr.children[0]));
  if (value.dict()) TRY(runtime_.charge(value.dict()->entries.size() / 16));
  if (value.ns()) TRY(runtime_.charge(value.ns()->values.entries.size() / 16));
  if (expr.kind == Kind::kAttribute) return get_attribute(value, expr.name);
  TRY_ASSIGN(const Value key, eval(*expr.children[1]));
  if (value.text()) TRY(runtime_.charge(value.text()->size() / 64));
  return get_item(value, key);
}

Result<Value> Interpreter::sliced(const Expr& expr) {
  TRY_ASSIGN(const Value value, eval(*expr.children[0]));
  Value parts[3] = {None{}, None{}, None{}};
  for (size_t i = 0; i < 3; ++i) {
    if (!expr.children[i + 1]) continue;
    TRY_ASSIGN(parts[i], eval(*expr.children[i + 1]));
  }
  return slice(runtime_, value, {&parts[0], &parts[1], &parts[2]});
}

Result<Value> Interpreter::sign(const Expr& expr) {
  TRY_ASSIGN(const Value value, eval(*expr.children[0]));
  if (!value.is_number()) return wrong("a {} has no sign", type_name(value));
  const Value zero(int64_t{0});
  return binary(runtime_, expr.kind == Kind::kNegative ? "-" : "+", zero, value);
}

Result<Value> Interpreter::compare(const Expr& expr) {
  TRY_ASSIGN(Value left, eval(*expr.children[0]));
  for (size_t i = 0; i < expr.comparisons.size(); ++i) {
    TRY_ASSIGN(Value right, eval(*expr.children[i + 1]));
    TRY_ASSIGN(const bool holds, jinja::compare(runtime_, expr.comparisons[i], left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

// Evaluates "not", "and" and "or". The last two return one of their operands, like Python's.
Result<Value> Interpreter::logical(const Expr& expr) {
  TRY_ASSIGN(Value left, eval(*expr.children[0]));
  if (expr.kind == Kind::kNot) return Value(!left.truthy());
  if (left.truthy() == (expr.kind == Kind::kOr)) return left;
  return eval(*expr.children[1]);
}

Result<Value> Interpreter::conditional(const Expr& expr) {
  TRY_ASSIGN(const Value condition, eval(*expr.children[1]));
  if (condition.truthy()) return eval(*expr.children[0]);
  return expr.children[2] ? eval(*expr.children[2]) : Value(Undefined{"an else"});
}

namespace {

Result<void> add_named(Arguments& given, std::string name, Value value) {
  if (given.find_named(name)) return wrong("'{}' is given twice", name);
  given.named.emplace_back(std::move(name), std::move(value));
  return {};
}

}  // namespace

Result<Arguments> Interpreter::arguments(const Expr& expr) {
  Arguments given;
  for (const Argument& argument : expr.arguments) {
    TRY_ASSIGN(Value value, eval(*argument.value));
    if (argument.spread == Argument::Spread::kItems) {
      TRY_ASSIGN(const std::vector<Value> items, iterate(runtime_, value));
      given.positional.insert(given.positional.end(), items.begin(), items.end());
    } else if (argument.spread == Argument::Spread::kEntries) {
      if (!value.dict()) return wrong("** takes no {}", type_name(value));
      for (const auto& [name, entry] : value.dict()->entries) {
        if (!name.text()) return wrong("** takes a dict whose keys are strings");
        TRY(add_named(given, name.text()->bytes(), entry));
      }
    } else if (argument.name.empty()) {
      given.positional.push_back(std::move(value));
    } else {
      TRY(add_named(given, argument.name, std::move(value)));
    }
  }
  return given;
}

Result<Value> Interpreter::call(const Expr& expr) {
  TRY_ASSIGN(const Value callee, eval(*expr.children[0]));
  TRY_ASSIGN(const Arguments given, arguments(expr));
  return call_value(callee, given);
}

Result<Value> Interpreter::call_value(const Value& callee, const Arguments& given) {
  if (const auto* macro = callee.as<Value::MacroPtr>()) return call_macro(**macro, given);
  if (callee.loop() && recursive_ && given.positional.size() == 1 && given.named.empty()) {
    TRY_ASSIGN(std::vector<Value> items, iterate(runtime_, given.positional[0]));
    return written(
        [&] { return run_items(*recursive_, std::move(items), callee.loop()->depth + 1); });
  }
  const Function* function = callee.as<Function>();
  if (!function) {
    if (callee.is_undefined()) {
      return wrong("'{}' is undefined, expected a function", callee.as<Undefined>()->name);
    }
    return wrong("a {} cannot be called", type_name(callee));
  }
  if (function->self) return call_method(runtime_, *function->self, function->name, given);
  TRY_ASSIGN(Value made, call_global(runtime_, function->name, given));
  if (made.as<Value::NamespacePtr>()) namespaces_.push_back(*made.as<Value::NamespacePtr>());
  return made;
}

Result<Value> Interpreter::filtered(const Expr& expr) {
  Value value;
  if (expr.children[0]) {
    TRY_ASSIGN(value, eval(*expr.children[0]));
  } else {
    value = *captured_;
  }
  TRY_ASSIGN(const Arguments given, arguments(expr));
  return apply_filter(runtime_, expr.name, value, given);
}

Result<Value> Interpreter::tested(const Expr& expr) {
  TRY_ASSIGN(const Value value, eval(*expr.children[0]));
  TRY_ASSIGN(const Arguments given, arguments(expr));
  TRY_ASSIGN(const bool holds, apply_test(runtime_, expr.name, value, given));
  return Value(holds);
}

}  // namespace kvik::jinja
