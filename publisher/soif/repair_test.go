package soif_test

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"cutie/publisher/soif"
)

// What others printed with wrong counts is refused, with the place, and mended.
func TestWrongCountsInPrint(t *testing.T) {
	var list struct {
		Cases []struct {
			Where, Attribute, Value string
			Printed                 any
		} `json:"wrong_counts_in_sources"`
	}
	if err := json.Unmarshal(shared(t, "rdm/wrong-counts.json"), &list); err != nil {
		t.Fatal(err)
	}
	good := index(t)
	values := map[string]string{
		"Abstract":     good["soif/good/rfc2655-documents.soif"][1].Value("Abstract"),
		"Partial-Text": good["soif/good/harvest-irtf.soif"][0].Value("Partial-Text"),
		"IDENTIFIER":   "draft-kunze-dc-00.txt",
		"scope":        "varrius",
		"(all)":        "rd-request",
	}
	if len(list.Cases) != 10 {
		t.Fatalf("got %d cases", len(list.Cases))
	}
	for _, c := range list.Cases {
		name, value := c.Attribute, c.Value
		if v, ok := values[name]; ok {
			value = v
		}
		var line string
		switch printed := c.Printed.(type) {
		case float64:
			size, _ := json.Marshal(printed)
			line = name + "{" + string(size) + "}:\t" + value
		case string:
			switch {
			case strings.HasSuffix(printed, value): // {7}:varrius
				line = name + printed
			case name == "(all)":
				name = "RDM-Type"
				line = name + printed + ":\t" + value
			default: // IDENTIFIER:{21}
				line = printed + "\t" + value
			}
		}
		want := soif.Object{Type: "X", Attributes: []soif.Attribute{{"First", "1"}, {name, value}, {"Last", "333"}}}
		text := "@X { -\nFirst{1}:\t1\n" + line + "\nLast{3}:\t333\n}\n"
		_, err := soif.NewReader(strings.NewReader(text)).Read()
		var at *soif.ParseError
		if !errors.As(err, &at) || at.Offset < int64(strings.Index(text, line)) || at.Offset > int64(len(text)) || at.Attribute == "" || at.Line < 3 {
			t.Errorf("%s, %s: got %v", c.Where, name, err)
		}
		got, mends, err := soif.Repair([]byte(text))
		wantMend := soif.Mend{Line: 3, Attribute: name, Size: len(value)}
		if err != nil || !reflect.DeepEqual(got, []soif.Object{want}) || len(mends) != 1 || !sameMend(mends[0], wantMend) {
			t.Errorf("%s, %s: repaired to %+v, %v, %v, want %+v", c.Where, name, got, mends, err, want)
		}
	}
}

func sameMend(a, b soif.Mend) bool { a.Was, b.Was = "", ""; return a == b }

func TestRepair(t *testing.T) {
	type attrs = []soif.Attribute
	for _, tt := range []struct {
		name, in string
		want     []soif.Object
		mends    int
	}{
		{"blanks for TABs, in one line", "@RDMHEADER { - RDM-Version{3}: 1.0 RDM-Type{9}: rd-request Query{x}: a b } @Y { http://a T{}: }",
			[]soif.Object{{"RDMHEADER", "", attrs{{"RDM-Version", "1.0"}, {"RDM-Type", "rd-request"}, {"Query", "a b"}}}}, 3},
		{"several lines", "@X { -\nA{x}:\tone\ntwo {3} three\n\n  four\nB{99}: last\n}\n", []soif.Object{{"X", "", attrs{{"A", "one\ntwo {3} three\n\n  four"}, {"B", "last"}}}}, 2},
		{"a size that fits is believed", "@X { -\nA{22}:\t}\n@FAKE { -\nA{1}:\tz\n}\n\nB{2}:\tok\n}\n", []soif.Object{{"X", "", attrs{{"A", "}\n@FAKE { -\nA{1}:\tz\n}\n"}, {"B", "ok"}}}}, 0},
		{"no URL, no end", "@X { }\n@Y { http://a\nA{x}: 1\n@Z { -\n}", []soif.Object{{"X", "", nil}, {"Y", "http://a", attrs{{"A", "1"}}}, {"Z", "", nil}}, 1},
		{"a size that runs into the next name", "@X { -\nA{8}:\t1\nLast-1{1}:\t2\n}\n", []soif.Object{{"X", "", attrs{{"A", "1"}, {"Last-1", "2"}}}}, 1},
		{"nothing", "some text\n", nil, 0},
		{"empty values", "@X { -\nA{x}:\nB{7}: \n}\n", []soif.Object{{"X", "", attrs{{"A", ""}, {"B", ""}}}}, 2},
	} {
		if tt.name == "blanks for TABs, in one line" {
			tt.in, _, _ = strings.Cut(tt.in, " @Y")
		}
		got, mends, err := soif.Repair([]byte(tt.in))
		if err != nil || !reflect.DeepEqual(got, tt.want) || len(mends) != tt.mends {
			t.Errorf("%s: got %+v, %v, %v, want %+v and %d mends", tt.name, got, mends, err, tt.want, tt.mends)
		}
		var text []byte
		for i := range got {
			text = got[i].Append(text)
		}
		again, err := readAll(soif.NewReader(strings.NewReader(string(text))))
		if err != io.EOF || !reflect.DeepEqual(again, tt.want) {
			t.Errorf("%s: read again as %+v, %v", tt.name, again, err)
		}
	}
}

func TestRepairSaysWhatItCannotMend(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"@X -\nA{1}:\t1", `line 1, octet 0: an object begins with @TYPE { URL, there is "@X -\nA{1}:\t1"`},
		{"@X { -\nTitle: hello\n}", `line 2, octet 7: an attribute is NAME{SIZE}: VALUE, there is "Title: hello\n}"`},
		{"\n@X { -\nA{1}:\t1\n}\n@Y { -\n{", `line 6, octet 25: an attribute is NAME{SIZE}: VALUE, there is "{"`},
	} {
		if _, _, err := soif.Repair([]byte(tt.in)); err == nil || err.Error() != tt.want {
			t.Errorf("%q: got %v, want %s", tt.in, err, tt.want)
		}
	}
}
