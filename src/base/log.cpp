#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <string>

#include "base/printable.h"

namespace kvik::log {

void init(std::string_view level) {
  static const auto logger = spdlog::stderr_color_mt("kvik");
  spdlog::set_default_logger(logger);
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  spdlog::set_level(spdlog::level::from_str(std::string(level)));
}

void write(Level level, fmt::string_view format, fmt::format_args values) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  const auto its_level = kLevels[static_cast<size_t>(level)];
  if (!spdlog::should_log(its_level)) return;
  spdlog::log(its_level,
              spdlog::string_view_t(printable(fmt::vformat(format, values), Breaks::kShown)));
}

}  // namespace kvik::log
