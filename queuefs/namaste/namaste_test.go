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
	UC3   []file                                             `json:"uc3_tags"`
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

func TestFileName(t *testing.T) {
	tests := []struct {
		value string
		want  string
	}{
		{"", "0="},
		{strings.Repeat("x", 253), "0=" + strings.Repeat("x", 253)},
		{strings.Repeat("x", 254), "0=" + strings.Repeat("x", 250) + "..."},
	}
	for _, tt := range tests {
		if got := (namaste.Tag{Value: tt.value}).FileName(); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.value, got, tt.want)
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
		{"0=x=y", "x/y\n\n", namaste.Tag{Value: "x/y\n"}, ""},
		{"1=who", "", namaste.Tag{}, `"1=who" is not the name of a type tag`},
		{"cutie-info.txt", "", namaste.Tag{}, `"cutie-info.txt" is not the name of a type tag`},
		{"00=x", "", namaste.Tag{}, `"00=x" is not the name of a type tag`},
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
	if got := namaste.Find(names); !slices.Equal(got, []string{"0=cutie_0.2", "0=cutie_0.3"}) {
		t.Errorf("got %q", got)
	}
	if got := namaste.Find(names[2:4]); got != nil {
		t.Errorf("got %q", got)
	}
}
