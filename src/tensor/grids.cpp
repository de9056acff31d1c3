#include "tensor/grids.h"

#include <cstddef>

namespace kvik {
namespace {

// The points of a grid, in the order of their codes. The digits of a point's number, lowest first,
// say which level each value has, and the numbers ascend. A character is the distance from the
// previous number (at first −1): '#' is 0, '$' is 1, … without '?', and '[' adds 55 to the next
// one.
constexpr char kContinued = '[';

constexpr char kIq2XxsGaps[] =
    "$%%%%%%)%'%%%))'%)%)/+%)'1B//%5H=%)-%)%'/-%)/)%'/17%-;%5B5)'%)/'%)%9;;[$-[2%)-+5/)'1)/5+-T"
    "-V)/'/7NDF1[0%)5@='[0RP%)93+%V+T%[<%)51L@7[M;/T[[3X%))'%))+'-%)55@+';+;+-B)/H39-[([>%)5'VN"
    "'-[$D5)')%H);=R[2[<%;[6JN-)D[([([:)5;BL[$BH'[C%R[[;[[[U%)7@@//[,[4%)'15HDF975J[>[E[6)/)R9L"
    "[&V7-[E[[[2P[[HF9B[6[M[[[[PT";

constexpr char kIq2XsGaps[] =
    "$%%%%%%%%%%%%'%%%%%%%'%)%%%'%'%-%%%%%%%%%%)%%%'%))'%)5%%%'%)-%)'1+7%%%%%%%'%)%%%'%%'-%)5%%"
    "%'%)-%)-+@%)1'%@;%%%%%%)')%))/5+%%)5@)75)P'-%%%%%%%'%)%%%'%)+%%)5%%%'%)-%)5/%1%%'55H%%%'%)"
    "-%'%/)@%)5Z/9T%)%3/79'R[0N%%%%%%%)-%)55-%)5)3D7F;'%)3%Z@-D/3[(')%-971[&/;/J'%7%%%%%%%'%)%%"
    "%%%%)')%)5%%%'%)-%)5'3+%)%1%Z%%%'%'%-%)5/3%)/)P-+9)R%)5'++F-7)3D[:%%%'%))'%)5@%)'1%XBV%%)-"
    "+5-5+)T)LD9+/3+F@-%[[#;%)5/+/7%[S1B31[85'P[EXV[,F+F%%%'%)+%%)5%9%%%%'5-)J5H%3)'%)%%1537BR7"
    "J@)39-%9+[MF)+-'%)513;7@[677'=))[,J%P[GLJ[(DH%'%-+RR)F'%'7@5HL[[F77-%'T))Z%R%J3";

constexpr char kIq2SGaps[] =
    "$%%%%%%%%%%%%'%%%%%%%'%%%%%%%'%)''%%%%%%%%'%)%%%'%%%%'%'%)%%)%)%%%'%)+%%%%%'1'''++%%%%%%%'"
    "%%%%%%%%%%%%%%%)%%%%'%'%)%%%%%%%%%'%'%%%%%%%'%)%%%'%)-%%%%'1'%'%)-%)5%%%'%%%%''%%%%%%%%'%)"
    "'+1%%)%%%'+'%'%)-+5-%+'%-F/%%%%%%%'%%'%%%'%%%%%%%'%%''%'%)%%%%%%%%%%%%'%%%%%%%'%)%%%'%3%'%"
    "')%)')%3%)5%%%'%%%%'%'%%%%%%%'%)%%%'%)-%%%%%%%'%)%%%'%)-%)5'%'%)-%)5=%%%%%'%'+%%%'%)-%;%%%"
    "'%)-%)39-)51L%%%'%%%%''%%)%%+)+'1%%)%%)+%%)%)-%)5+/'%');%3'%%%%'%'%)%%%'%)-%)5'%'%)-%)1'@%"
    ")53J')%3%)=5%%)[&9/@/%7%%%%%%%%%%%'%%%%%%%%%%%)%)'%'%)%%%'%%%%%%)%%%%%%%'%)%%%'%)-%)%%%))'"
    "%'%)-%;%%%%%%%%%%%%'%%%%%%%'%)%%%'%)-%%%%%%%'%)%%%'%)+%%)5%%%'%)-%)59)%'%%%%'%)%%%'%)/)5%%"
    "%'%)-%)511%)5Z%%%'%%%%%%%'%%%%%%%'%)%%%'%3%%%%%%%'%)%%%'%)-%)5'%'%)-%)3%@%%%%%%%'%)%%%'%)-"
    "%)5%%%'%)-%)5@%)1'Z%%%'%)-%)+-@%)5Z3N7'%%'%%%'%)'%'%)/)5%%%'%)-%)531)51D+'%'%)-%)5@%)5+313"
    "[.3%)L7/=[AP+%%%'%'%')%)%%%'+')%3%'%%%%'%)%%%'%3%)3%''%%3%)R%%%%%%%'+%%%'%)-%)5%%%'%)-%)5+"
    "7%)3%Z')%3%)J+%;9X9%/5+%'%%%%))%%%'%)-%)5')%3%)+J%)5V'%%%'%)-%)511%)5N'+D3F%)1'X%F'[W5'''+"
    ")%%)J)@9F)/'%B'%3'%)5F1)3[SX3VR7@%-%'H7";

constexpr char kIq3XxsGaps[] =
    "$%%(%'$%*,<%'%(%*'&%*./+%%(*%*%'-)1')$%.G67(./%')63W:7'%813%(%*%(%%.$;%**%S%(%**F)%1,03.'G"
    "L'56/[91D%*%(%'&,C%%&%**>'$+%*)$%0$07*'P'E1;7->[1%.:@*%*%80()%1,.%>%(08325[)26))/>C58L87.1"
    "%/'[972$3)4BCI.E18[9&%1V::+)3:C1D+MA.'G+:[;P1V3%1ADBIH)[2EIUL1V%%$53P-N>(9018E3C%5[0";

constexpr char kIq3SGaps[] =
    "$$$&%$$$%%%$')(%&%%%(%*&&$$$%'$'&&'%'*0'()$'%$&&&'&')&%%%0&+)'&%*%&)'%0%'&.'%&))&)2-%/%'()"
    "'%2(.&%142*%%/%'(0'7$$%'$%%%$%*&%1%&,)$%&%'(*&)*%1)%-&%$'))&-&-*&&$&))$'(4).%(%0%*'%'8*&)*"
    "%2K'&0%>%(%*/'4)+$%%%$%%%&%'$%*%%&%0$&%&%)&'&&'&)*;&&-%(*%-'-&'%&',%(%*)1.),&*&'<&*(,0$.0+"
    "%(-@'7'0%.(=*%%%&*%%(%&%-)+%%*(%03-'%-)-%/<*'(%'$,%')1+)('*4)'0*%.(--066D%0%.G'))'&&**3-(%"
    "%*)())'7%(('-(2&)/(%(%*'G%5.$</%-E<47;(..)<)')1'&&/)(%%(*,D),-()0:($20(/))&/-/H/6%[#D%1[#%"
    "%/%833*A95).()+/(2Y121&<78>M%Y'&,%/%/)3*.2%@&')&*4<;&19')(;N3D:K";

constexpr char kIq1Gaps[] =
    "$%%%%%&(%'%()%%+(%'%((%'%'$)%%%$()'%'%'%%%$*)%%+(%'%((%'%())('%%'%%&&%%'%.%%+)))''$2)))%$$"
    "+%%+%''$$%$$%%%%%%%,&%%%%$$%1'/%)%%%&$'%))%'.%'%((%'%()'+(%'%((%'%()%'($)+$&)%'/%%%)(%'%(("
    "%'%())&&(%%%%((%'%-$%'($)%)'%'%$&/%%(&)%%%%%%%'%')'$$$$$$%%'++%)%3%%+((%'%%%'%+)%%+)'%($%$"
    "&'(&$$%%%$$%'%%)'%&$%$$%%$&'%'%%$$%%%%%%%%$$($$$$%$%%$$%%%$$%%$$%$$%$$%%)%$$+$$%%''%$$%%%&"
    "$$$&%$%$$)&&%+'/'+)%%%%'%%$$%%%))%-1%%'%&*$$%'%$$%$$''+&$%%''%,**%*%%%%%%''%))'&-%'%((%%%%"
    "())&&(%'%((%%%%()%')*$')%%%%$$+((%))(%%&(%'%()'%))(%%&(%'%(+%%)+$$%'%%%)+)%'&&/)))%'%'%$&'"
    "%%-%&$%%%%%%)(%())))($)(%'+-%'%((%'%()%-(%'%-%'%+&%')-%'%)%%%)((%($(%'%-%'%()'%)(%'%((%'%("
    ")'+/'%%%%%%3'&''$%%%'%$$%%'%)%%%%$$%$(%%%%%'%%($$.)%%+)-%''',(-)/&,)%%%%$$($%%%%'%%%%($)&$"
    "%'%%$$%%''%%$$%%$%$$$$&%$$%'$$%'%$$%$(%%%&&($%%%%'%%%%&$$%$%'%%'&''$)%%+)&'(*(%'%'%%%))%%%"
    "))&$&$&$%'%%'''%$$$$%%%%$&)%'%$$'%%%33%%)%%''1-)%$$%'%'%%'%'%'%$$%)%+%)%&$'%)%$$%%$$$$%'$$"
    "%%%$$%%$$$$$$$$%%$$%'%)%$$%%''%')%'%%+%'%%$$%'%,(%%&$',$)%$$$$&&%%%%$$%$$$%$$$$$%$$$$%%)%%"
    "%$$%&%$'%$$$$%%$$$$$%$%%$$%%$$$$$$$%$$$$$$$$$$%$$$$$%%$&$$$%$$$$&%$$%%$$$%$$&%$%$%$$$$$$$&"
    "&$$$$$$$$$$$$$%%$&'%$$$$%&'&%$$$($$%%'%'*(%%%%$$$$%%$$*(%%%%')&$%'%%$$%))%$$%%$$$$$$$$%%$$"
    "%&&&&%$$$$)+&*'$'$%)%$&&$$$'%%%%*&%$$%%/+%%)+)'$$%%%%%&0+)%%%'%)$&%)&&&$%)$&'(&%)'%/'%.$'+"
    "$$&0)'+2$%$&%'%%%%%%%%$$%$$%%+$&%%$$$$%%%')%%%&$%1$$%%$%$$%&%$$%*%$%&$%$&%$$(()(($$%'%%%%$"
    "$$%$'%&%%''%$$%&%&2%))-%'%)))(+(%)')%%%%$&$$'%$$%%''&$(()%$&/'$0%'%'%%'$&**&%)'%'%-%'%(($%"
    "%%)(%'%((%'%()%%%))%'%%%$$$(%%)&(%%)(%'%((%'%.%')(%'%((%'%0'/%*&'%%'1'/)'%')%%$&%'%$$%$($$"
    "%%%%%%%%%+1'%))%'$$'&$%'&()*')%'%((%'%%&)%')&%%'%((%'%($(%%+)%%%%%%'%%--%)(%'%((%'%()%%0%'"
    "%((%'%()'$$))'%)%%+$()%%%))%%%%'%%%%%%%'($%$$%'%+%)%%'%%%))%')+%%%%%%+%)+%.&%%''%+'+%%$$$$"
    "%$$%+%)$$%')%'%%$$%$$%&&&$%%$$%%$$$$$$$$%%$$%&&%'$$$$%$$%%%%%%)'&%(%)%$&$%$%)%($'$&$$+%%)-"
    "%))''%%$&'$,)'%)+%%%%%%%$$%%'%%%%%%$$%'%$&%%)%%'%'+,,+%%%'%'/)%$$0%'%((%'%()%%%.%'%((%'%(&"
    "&%%%$2%&&%%%%-(%&%0'%$*''%()'%)(%'%((%'%4))%)&$%%%&$$$)@%%%%%+%'%)%$$%)'%%$$%'%%3)'&%&+%&&"
    "%$$&%/''$%&%%'%'%-%'%.%%%.%'%((%'%(+'&&)+''%'%.(0%'%-%'%.%%0%'%((%'%";

constexpr size_t number_of_points(const char* gaps) {
  size_t n = 0;
  for (; *gaps != 0; ++gaps) n += *gaps != kContinued ? 1 : 0;
  return n;
}
static_assert(number_of_points(kIq2XxsGaps) == 256);
static_assert(number_of_points(kIq2XsGaps) == 512);
static_assert(number_of_points(kIq2SGaps) == 1024);
static_assert(number_of_points(kIq3XxsGaps) == 256);
static_assert(number_of_points(kIq3SGaps) == 512);
static_assert(number_of_points(kIq1Gaps) == 2048);

// Expands a grid. offset: of the levels beside 128.
template <class Grid, size_t kGapsSize, size_t kBase>
constexpr Grid expand(const char (&gaps)[kGapsSize], const int8_t (&digits)[kBase], int offset) {
  Grid grid{};
  int number = -1;
  size_t point = 0;
  for (size_t i = 0; gaps[i] != 0; ++i) {
    number += gaps[i] - (gaps[i] > '?' ? '$' : '#');
    if (gaps[i] == kContinued) continue;
    int rest = number;
    for (size_t v = 0; v < Grid::kValues; ++v) {
      const int level = digits[static_cast<size_t>(rest) % kBase];
      grid.levels[point][v] = static_cast<uint8_t>(128 + level + offset);
      rest /= static_cast<int>(kBase);
    }
    ++point;
  }
  return grid;
}

template <uint32_t kPoints, uint32_t kValues, size_t kBase>
constexpr DigitPlanes<kPoints> planes_of(const GridOf<kPoints, kValues>& grid,
                                         const int8_t (&digits)[kBase], int offset) {
  constexpr uint32_t kPerByte = kValues / 2, kBits = 8 / kPerByte;
  DigitPlanes<kPoints> planes{};
  for (uint32_t point = 0; point < kPoints; ++point) {
    for (uint32_t v = 0; v < kValues; ++v) {
      uint32_t digit = 0;
      while (128 + digits[digit] + offset != grid.levels[point][v]) ++digit;
      uint8_t& byte = planes.plane[v / kPerByte][point];
      byte = static_cast<uint8_t>(byte | digit << (kBits * (v % kPerByte)));
    }
  }
  return planes;
}

}  // namespace

constexpr GridOf<256, 4> kIq3XxsGrid = expand<GridOf<256, 4>>(kIq3XxsGaps, kIq3XxsDigits, 0);
constexpr GridOf<512, 4> kIq3SGrid = expand<GridOf<512, 4>>(kIq3SGaps, kIq3SDigits, 0);
constexpr GridOf<256, 8> kIq2XxsGrid = expand<GridOf<256, 8>>(kIq2XxsGaps, kIq2Digits, 0);
constexpr GridOf<512, 8> kIq2XsGrid = expand<GridOf<512, 8>>(kIq2XsGaps, kIq2Digits, 0);
constexpr GridOf<1024, 8> kIq2SGrid = expand<GridOf<1024, 8>>(kIq2SGaps, kIq2Digits, 0);
constexpr GridOf<2048, 8> kIq1Grid = expand<GridOf<2048, 8>>(kIq1Gaps, kIq1Digits, 1);

constexpr DigitPlanes<256> kIq3XxsPlanes = planes_of(kIq3XxsGrid, kIq3XxsDigits, 0);
constexpr DigitPlanes<512> kIq3SPlanes = planes_of(kIq3SGrid, kIq3SDigits, 0);
constexpr DigitPlanes<256> kIq2XxsPlanes = planes_of(kIq2XxsGrid, kIq2Digits, 0);
constexpr DigitPlanes<512> kIq2XsPlanes = planes_of(kIq2XsGrid, kIq2Digits, 0);
constexpr DigitPlanes<1024> kIq2SPlanes = planes_of(kIq2SGrid, kIq2Digits, 0);
constexpr DigitPlanes<2048> kIq1Planes = planes_of(kIq1Grid, kIq1Digits, 1);

}  // namespace kvik
