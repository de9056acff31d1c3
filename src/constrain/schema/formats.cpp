#include "constrain/schema/formats.h"

#include <array>
#include <string>

#include "constrain/pattern/pattern.h"

namespace kvik::constrain {
namespace {

struct Format {
  std::string_view name;
  std::string_view pattern;  // matches the whole string
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
// RFC 3986, appendix A. RFC 3987 is the same with the additional characters in `more`.
#define KVIK_PCHAR(more) "(?:[A-Za-z0-9._~!$&'()*+,;=:@" more "-]|%[0-9a-fA-F]{2})"
#define KVIK_USER(more) "(?:[A-Za-z0-9._~!$&'()*+,;=:" more "-]|%[0-9a-fA-F]{2})*"
#define KVIK_NAME(more) "(?:[A-Za-z0-9._~!$&'()*+,;=" more "-]|%[0-9a-fA-F]{2})*"
#define KVIK_AUTHORITY(more)                                  \
  "(?:" KVIK_USER(more) "@)?(?:\\[(?:" KVIK_IPV6              \
                        "|[vV][0-9a-fA-F]+\\.[A-Za-z0-9._~!$" \
                        "&'()*+,;=:-]+)\\]|" KVIK_NAME(more) ")(?::[0-9]*)?"
#define KVIK_TAIL(more) "(?:\\?(?:" KVIK_PCHAR(more) "|[/?])*)?(?:#(?:" KVIK_PCHAR(more) "|[/?])*)?"
#define KVIK_ABSOLUTE_PATHS(more)                                             \
  "(?://" KVIK_AUTHORITY(more) "(?:/" KVIK_PCHAR(more) "*)*|/(?:" KVIK_PCHAR( \
      more) "+(?:/" KVIK_PCHAR(more) "*)*)?"
#define KVIK_URI(more)                                                                          \
  "[A-Za-z][A-Za-z0-9+.-]*:" KVIK_ABSOLUTE_PATHS(more) "|" KVIK_PCHAR(more) "+(?:/" KVIK_PCHAR( \
      more) "*)*|)" KVIK_TAIL(more)
#define KVIK_SEGMENT_NC(more) "(?:[A-Za-z0-9._~!$&'()*+,;=@" more "-]|%[0-9a-fA-F]{2})+"
#define KVIK_RELATIVE(more) \
  KVIK_ABSOLUTE_PATHS(more) \
  "|" KVIK_SEGMENT_NC(more) "(?:/" KVIK_PCHAR(more) "*)*|)" KVIK_TAIL(more)
// RFC 3987: ucschar
#define KVIK_PLANE(n) "\\u{" n "0000}-\\u{" n "FFFD}"
#define KVIK_UCS                                                                                  \
  "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF" KVIK_PLANE("1") KVIK_PLANE("2") KVIK_PLANE("3") \
      KVIK_PLANE("4") KVIK_PLANE("5") KVIK_PLANE("6") KVIK_PLANE("7") KVIK_PLANE("8")             \
          KVIK_PLANE("9") KVIK_PLANE("A") KVIK_PLANE("B") KVIK_PLANE("C")                         \
              KVIK_PLANE("D") "\\u{E1000}-\\u{EFFFD}"
// RFC 6570, section 2.
#define KVIK_VARIABLE_CHARACTER "(?:[A-Za-z0-9_]|%[0-9a-fA-F]{2})"
#define KVIK_VARIABLE \
  KVIK_VARIABLE_CHARACTER "(?:\\.?" KVIK_VARIABLE_CHARACTER ")*(?::[1-9][0-9]{0,3}|\\*)?"
#define KVIK_TEMPLATE                                                            \
  "(?:[^\\u0000-\\u0020\"'%<>\\\\^`{|}\\u007F-\\u009F]|%[0-9a-fA-F]{2}|\\{[+#./" \
  ";?&=,!@|]?" KVIK_VARIABLE "(?:," KVIK_VARIABLE ")*\\})*"
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
    {"uri", KVIK_URI("")},
    {"uri-reference", "(?:" KVIK_URI("") "|" KVIK_RELATIVE("") ")"},
    {"iri", KVIK_URI(KVIK_UCS)},
    {"iri-reference", "(?:" KVIK_URI(KVIK_UCS) "|" KVIK_RELATIVE(KVIK_UCS) ")"},
    {"uri-template", KVIK_TEMPLATE},
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

}  // namespace kvik::constrain
