package namaste_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs/namaste"
)

type file struct{ File, Content string }

type vectors struct {
	Ruby  []struct{ Tag, Value, File string }                `json:"ruby_filename"`
	Type  struct{ Content, Full, Name, Major, Minor string } `json:"ruby_dirtype"`
	Elide []struct {
		Args []any
		Out  string
	} `json:"perl_elide"`
	CLI   []file `json:"perl_cli"`
	UC3   []file `json:"uc3_tags"`
	Cutie struct {
		Write  file
		Accept []file
		Reject []file
	}
}

// readVectors returns the test vectors, or skips the test.
func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	shared := os.Getenv("CUTIE_SHARED")
	if shared == "" {
		shared = "../../../shared"
	}
	if _, err := os.Stat(filepath.Join(shared, "vectors")); err != nil {
		t.Skip("shared vectors not found; set CUTIE_SHARED")
	}
	b, err := os.ReadFile(filepath.Join(shared, "vectors", "namaste", "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTypeTags(t *testing.T) {
	v := readVectors(t)
	for _, f := range append(v.UC3, v.Cutie.Write) {
		tag, err := namaste.Parse(f.File, f.Content)
		if err != nil || tag.FileName() != f.File || tag.Content() != f.Content {
			t.Errorf("%s: got %v, %v", f.File, tag, err)
		}
		if _, err := namaste.ParseVersion(tag.Value); err != nil {
			t.Errorf("%s: %v", f.File, err)
		}
	}
	for _, f := range v.Ruby {
		if f.Tag != "0" || strings.HasPrefix(f.Value, "(") {
			continue // of a number that is none, or a description of a value
		}
		want := f.File
		if want == "0=rq_f2_euasd_" {
			want = "0=rq_f2_asd_" // ours does not transliterate
		}
		if got := (namaste.Tag{Value: f.Value}).FileName(); got != want {
			t.Errorf("%s: got %s, want %s", f.Value, got, want)
		}
	}
	for _, value := range []string{v.Type.Content, "Dflat_0.19"} {
		got, err := namaste.ParseVersion(value)
		if want := (namaste.Version{Name: "Dflat", Major: 0, Minor: 19}); got != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", value, got, err, want)
		}
		if got.String() != v.Type.Full {
			t.Errorf("%s: printed as %s", value, got)
		}
	}
}

func TestCutieHomes(t *testing.T) {
	v := readVectors(t)
	for _, f := range append(v.Cutie.Accept, v.Cutie.Reject...) {
		if f.File == "" {
			continue // a directory without tags, see TestFind
		}
		tag, err := namaste.Parse(f.File, f.Content)
		if err != nil || tag.FileName() != f.File || tag.Value != strings.TrimRight(f.Content, "\r\n") {
			t.Errorf("%s: got %v, %v", f.File, tag, err)
		}
	}
}

func TestElide(t *testing.T) {
	// The arguments of File::Value: a length with the letter of the side, then
	// the ellipsis. What follows the letter has no effect there either.
	spec := map[any]struct {
		max      int
		side     namaste.Side
		ellipsis string
	}{
		nil:      {16, namaste.End, ".."},
		"7m":     {7, namaste.Middle, "..."},
		22.0:     {22, namaste.End, ".."},
		"22m":    {22, namaste.Middle, "..."},
		"22s":    {22, namaste.Start, ".."},
		"22m+4%": {22, namaste.Middle, "..."},
	}
	vectors := readVectors(t)
	for _, v := range vectors.Elide {
		args := append(v.Args, nil, nil)
		s, ok := spec[args[1]]
		if !ok {
			t.Fatalf("unknown argument %v", args[1])
		}
		if ellipsis, ok := args[2].(string); ok {
			s.ellipsis = ellipsis
		}
		if got := namaste.Elide(args[0].(string), s.max, s.side, s.ellipsis); got != v.Out {
			t.Errorf("%v: got %s, want %s", v.Args, got, v.Out)
		}
	}
	// The first command is "nam set 2 VALUE 13m ___".
	cli := vectors.CLI[0]
	if got := "2=" + namaste.Elide(cli.Content, 13, namaste.Middle, "___"); got != cli.File {
		t.Errorf("got %s, want %s", got, cli.File)
	}
	if got := namaste.Elide("na\u00efve", 3, namaste.Start, "...."); got != "...." {
		t.Errorf("got %s", got)
	}
}

func TestFileName(t *testing.T) {
	tests := []struct {
		number int
		value  string
		want   string
	}{
		{namaste.Type, "", "0="},
		{namaste.Type, strings.Repeat("x", 253), "0=" + strings.Repeat("x", 253)},
		{namaste.Type, strings.Repeat("x", 254), "0=" + strings.Repeat("x", 250) + "..."},
		{namaste.Who, "Twain, Mark", "1=Twain, Mark"},
		{namaste.What, "Adventures of Huckleberry Finn", "2=Adventures of .."},
		{namaste.When, "a/b \t\nc\x00\u4e2d", "3=a=b c?\u4e2d"},
		{17, "x", "17=x"},
	}
	for _, tt := range tests {
		if got := (namaste.Tag{Number: tt.number, Value: tt.value}).FileName(); got != tt.want {
			t.Errorf("%d, %q: got %q, want %q", tt.number, tt.value, got, tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, content string
		want          namaste.Tag
		err           string
	}{
		{"0=cutie_0.3", "Cutie/0.3", namaste.Tag{Value: "Cutie/0.3"}, ""},
		{"0=cutie_0.3", "Cutie/0.3\r", namaste.Tag{Value: "Cutie/0.3"}, ""},
		{"0=cutie_0.3", "", namaste.Tag{Value: "cutie_0.3"}, ""},
		{"12=x=y", "x/y\n\n", namaste.Tag{Number: 12, Value: "x/y\n"}, ""},
		{"cutie-info.txt", "", namaste.Tag{}, `"cutie-info.txt" is not the name of a Namaste tag`},
		{"00=x", "", namaste.Tag{}, `"00=x" is not the name of a Namaste tag`},
		{"99999999999999999999=x", "", namaste.Tag{}, `"99999999999999999999=x": number of the Namaste tag out of range`},
	}
	for _, tt := range tests {
		got, err := namaste.Parse(tt.name, tt.content)
		if got != tt.want || tt.err == "" && err != nil || tt.err != "" && (err == nil || err.Error() != tt.err) {
			t.Errorf("%s: got %v, %v, want %v, %s", tt.name, got, err, tt.want, tt.err)
		}
	}
	for _, value := range []string{"", "Cutie", "Cutie/0", "Cutie/0.3/0.1", "x_Cutie_0.3", "Cutie/0.99999999999999999999"} {
		if got, err := namaste.ParseVersion(value); err == nil {
			t.Errorf("%q: got %v, want an error", value, got)
		}
	}
}

func TestFind(t *testing.T) {
	names := []string{"queues", "0=cutie_0.2", "00=x", "10=x", "0=cutie_0.3", "1=who"}
	if got := namaste.Find(names, namaste.Type); !slices.Equal(got, []string{"0=cutie_0.2", "0=cutie_0.3"}) {
		t.Errorf("got %q", got)
	}
	if got := namaste.Find(names, namaste.Where); got != nil {
		t.Errorf("got %q", got)
	}
}
