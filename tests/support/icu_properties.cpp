// Prints a hash of each Unicode property, normal form and letter case that ICU's data gives.
// e2e/package_test.py links it to the whole data of ICU and to the part in the portable program.
#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>
#include <unicode/uscript.h>

#include <cstdint>
#include <cstdio>
#include <string>

namespace {

class Hash {
 public:
  void add(uint64_t value) { value_ = (value_ ^ value) * 0x100000001b3; }
  void add(const icu::UnicodeString& text) {
    for (int32_t i = 0; i < text.length(); ++i) add(text[i]);
    add(0x110000);
  }
  void add(const icu::UnicodeSet& set) {
    for (int32_t i = 0; i < set.getRangeCount(); ++i) {
      add(static_cast<uint64_t>(set.getRangeStart(i)));
      add(static_cast<uint64_t>(set.getRangeEnd(i)));
    }
  }
  void print(const std::string& name) const {
    std::printf("%s %016llx\n", name.c_str(), static_cast<unsigned long long>(value_));
  }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

void print_set(const std::string& name) {
  UErrorCode status = U_ZERO_ERROR;
  icu::UnicodeSet set(icu::UnicodeString::fromUTF8("[\\p{" + name + "}]"), status);
  Hash hash;
  hash.add(static_cast<uint64_t>(status));
  hash.add(set);
  set.closeOver(USET_CASE_INSENSITIVE);
  hash.add(set);
  hash.print(name);
}

void print_properties() {
  for (int p = UCHAR_BINARY_START; p < UCHAR_BINARY_LIMIT; ++p) {
    if (const char* name = u_getPropertyName(static_cast<UProperty>(p), U_LONG_PROPERTY_NAME))
      print_set(name);
  }
  for (int p = UCHAR_INT_START; p < UCHAR_INT_LIMIT; ++p) {
    const auto property = static_cast<UProperty>(p);
    const char* const name = u_getPropertyName(property, U_LONG_PROPERTY_NAME);
    for (int32_t value = u_getIntPropertyMinValue(property);
         name && value <= u_getIntPropertyMaxValue(property); ++value) {
      const char* const value_name = u_getPropertyValueName(property, value, U_LONG_PROPERTY_NAME);
      if (value_name) print_set(std::string(name) + "=" + value_name);
    }
  }
  print_set("Lu");
  print_set("Greek");
  print_set("RGI_Emoji");
}

void print_normal_forms() {
  for (const char* const data : {"nfc", "nfkc", "nfkc_cf"}) {
    for (const auto mode : {UNORM2_COMPOSE, UNORM2_DECOMPOSE}) {
      UErrorCode status = U_ZERO_ERROR;
      const icu::Normalizer2* const form =
          icu::Normalizer2::getInstance(nullptr, data, mode, status);
      Hash hash;
      hash.add(static_cast<uint64_t>(status));
      for (UChar32 c = 0; form && c < 0x110000; ++c)
        hash.add(
            form->normalize(icu::UnicodeString(u'e').append(c).append(UChar32{0x301}), status));
      hash.print(std::string(data) + (mode == UNORM2_COMPOSE ? " composed" : " decomposed"));
    }
  }
}

void print_characters() {
  Hash cases, kinds;
  for (UChar32 c = 0; c < 0x110000; ++c) {
    icu::UnicodeString text(c);
    cases.add(text.toLower(icu::Locale::getRoot()));
    cases.add(text.toUpper(icu::Locale::getRoot()));
    cases.add(static_cast<uint64_t>(u_totitle(c)));
    UErrorCode status = U_ZERO_ERROR;
    kinds.add(static_cast<uint64_t>(uscript_getScript(c, &status)));
    kinds.add(static_cast<uint64_t>(u_charType(c)));
    kinds.add(static_cast<uint64_t>(u_charDigitValue(c)));
    kinds.add(static_cast<uint64_t>(u_isUWhiteSpace(c)));
  }
  cases.print("letter cases");
  kinds.print("kinds");
}

}  // namespace

int main() {
  print_properties();
  print_normal_forms();
  print_characters();
}
