#include "text/grammar/schema/formats.h"

#include <array>
#include <string>

#include "text/grammar/pattern.h"

namespace kvik::grammar {
namespace {

struct Format {
  std::string_view name;
  std::string_view pattern;  // of the whole string
};

#define KVIK_LEAP_YEAR \
  "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define KVIK_DATE                                                                        \
  "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]" \
  "|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" KVIK_LEAP_YEAR "-02-29)"
#define KVIK_TIME                                                              \
  "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[zZ]|[+-](?:" \
  "[01][0-9]|2[0-3]):[0-5][0-9])|23:59:60(?:\\.[0-9]+)?(?:[zZ]|[+-]00:00))"
#define KVIK_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define KVIK_IPV4 KVIK_OCTET "(?:\\." KVIK_OCTET "){3}"
#define KVIK_LABEL "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define KVIK_HOSTNAME "(?=.{1,253}$)" KVIK_LABEL "(?:\\." KVIK_LABEL ")*"
#define KVIK_H16 "[0-9a-fA-F]{1,4}"
#define KVIK_LS32 "(?:" KVIK_H16 ":" KVIK_H16 "|" KVIK_IPV4 ")"
// RFC 3986, section 3.2.2.
#define KVIK_IPV6                                                                               \
  "(?:(?:" KVIK_H16 ":){6}" KVIK_LS32 "|::(?:" KVIK_H16 ":){5}" KVIK_LS32 "|(?:" KVIK_H16       \
  ")?::(?:" KVIK_H16 ":){4}" KVIK_LS32 "|(?:(?:" KVIK_H16 ":){0,1}" KVIK_H16 ")?::(?:" KVIK_H16 \
  ":){3}" KVIK_LS32 "|(?:(?:" KVIK_H16 ":){0,2}" KVIK_H16 ")?::(?:" KVIK_H16 ":){2}" KVIK_LS32  \
  "|(?:(?:" KVIK_H16 ":){0,3}" KVIK_H16 ")?::" KVIK_H16 ":" KVIK_LS32 "|(?:(?:" KVIK_H16        \
  ":){0,4}" KVIK_H16 ")?::" KVIK_LS32 "|(?:(?:" KVIK_H16 ":){0,5}" KVIK_H16 ")?::" KVIK_H16     \
  "|(?:(?:" KVIK_H16 ":){0,6}" KVIK_H16 ")?::)"
#define KVIK_PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})"
#define KVIK_USER "(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9a-fA-F]{2})*"
#define KVIK_NAME "(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9a-fA-F]{2})*"
#define KVIK_AUTHORITY                     \
  "(?:" KVIK_USER "@)?(?:\\[(?:" KVIK_IPV6 \
  "|[vV][0-9a-fA-F]+\\.[A-Za-z0-9._~!$"    \
  "&'()*+,;=:-]+)\\]|" KVIK_NAME ")(?::[0-9]*)?"
#define KVIK_TAIL "(?:\\?(?:" KVIK_PCHAR "|[/?])*)?(?:#(?:" KVIK_PCHAR "|[/?])*)?"
#define KVIK_ABSOLUTE_PATHS \
  "(?://" KVIK_AUTHORITY "(?:/" KVIK_PCHAR "*)*|/(?:" KVIK_PCHAR "+(?:/" KVIK_PCHAR "*)*)?"
#define KVIK_URI                                                                   \
  "[A-Za-z][A-Za-z0-9+.-]*:" KVIK_ABSOLUTE_PATHS "|" KVIK_PCHAR "+(?:/" KVIK_PCHAR \
  "*"                                                                              \
  ")*|)" KVIK_TAIL
#define KVIK_SEGMENT_NC "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9a-fA-F]{2})+"
#define KVIK_RELATIVE KVIK_ABSOLUTE_PATHS "|" KVIK_SEGMENT_NC "(?:/" KVIK_PCHAR "*)*|)" KVIK_TAIL
#define KVIK_ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define KVIK_POINTER "(?:/(?:[^~/]|[\\r\\n\\u2028\\u2029]|~[01])*)*"

constexpr std::array kFormats = std::to_array<Format>({
    {"date", KVIK_DATE},
    {"time", KVIK_TIME},
    {"date-time", KVIK_DATE "[tT]" KVIK_TIME},
    {"duration",
     "P(?:[0-9]+W|(?=[0-9T])(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)?"
     "(?:T(?=[0-9])(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?)"},
    {"email",
     "(?:" KVIK_ATOM "(?:\\." KVIK_ATOM ")*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\")@(?:" KVIK_LABEL
     "(?:\\." KVIK_LABEL ")*|\\[(?:" KVIK_IPV4 "|IPv6:" KVIK_IPV6 ")\\])"},
    {"hostname", KVIK_HOSTNAME},
    {"ipv4", KVIK_IPV4},
    {"ipv6", KVIK_IPV6},
    {"uri", KVIK_URI},
    {"uri-reference", "(?:" KVIK_URI "|" KVIK_RELATIVE ")"},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"json-pointer", KVIK_POINTER},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" KVIK_POINTER ")"},
});

}  // namespace

std::optional<Regular> format_texts(RegularPool& pool, std::string_view format) {
  for (const auto& [name, pattern] : kFormats) {
    if (name != format) continue;
    const auto made = parse_pattern(pool, pattern, {});
    return made ? std::optional(*made) : std::nullopt;
  }
  return {};
}

}  // namespace kvik::grammar
