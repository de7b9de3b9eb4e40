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
		fixed, err := soif.Repair([]byte(text))
		got, mends := fixed.Objects, fixed.Mends
		wantMend := soif.Mend{Line: 3, Attribute: name, Size: len(value)}
		if err != nil || !reflect.DeepEqual(got, []soif.Object{want}) || len(mends) != 1 || !sameMend(mends[0], wantMend) {
			t.Errorf("%s, %s: repaired to %+v, %v, %v, want %+v", c.Where, name, got, mends, err, want)
		}
	}
}

func sameMend(a, b soif.Mend) bool { a.What, b.What = "", ""; return a == b }

func TestRepair(t *testing.T) {
	type attrs = []soif.Attribute
	for _, tt := range []struct {
		name, in string
		want     []soif.Object
		mends    int
	}{
		{"blanks for TABs, in one line", "@RDMHEADER { - RDM-Version{3}: 1.0 RDM-Type{9}: rd-request Query{x}: a b } @Y { http://a T{}: }",
			[]soif.Object{{"RDMHEADER", "", attrs{{"RDM-Version", "1.0"}, {"RDM-Type", "rd-request"}, {"Query", "a b"}}}, {"Y", "http://a", attrs{{"T", ""}}}}, 4},
		{"several lines", "@X { -\nA{x}:\tone\ntwo {3} three\n\n  four\nB{99}: last\n}\n", []soif.Object{{"X", "", attrs{{"A", "one\ntwo {3} three\n\n  four"}, {"B", "last"}}}}, 2},
		{"a size that fits is believed", "@X { -\nA{22}:\t}\n@FAKE { -\nA{1}:\tz\n}\n\nB{2}:\tok\n}\n", []soif.Object{{"X", "", attrs{{"A", "}\n@FAKE { -\nA{1}:\tz\n}\n"}, {"B", "ok"}}}}, 0},
		{"no URL, no end", "@X { }\n@Y { http://a\nA{x}: 1\n@Z { -\n}", []soif.Object{{"X", "", nil}, {"Y", "http://a", attrs{{"A", "1"}}}, {"Z", "", nil}}, 3},
		{"a size that runs into the next name", "@X { -\nA{8}:\t1\nLast-1{1}:\t2\n}\n", []soif.Object{{"X", "", attrs{{"A", "1"}, {"Last-1", "2"}}}}, 1},
		{"nothing", "some text\n", nil, 0},
		{"empty values", "@X { -\nA{x}:\nB{7}: \n}\n", []soif.Object{{"X", "", attrs{{"A", ""}, {"B", ""}}}}, 2},
	} {
		fixed, err := soif.Repair([]byte(tt.in))
		got, mends := fixed.Objects, fixed.Mends
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
		{"@X { -\nA{x}: one\n}\nB{1}:\t2\n}\n", `line 4, octet 19: an attribute is outside of an object, there is "B{1}:\t2\n}\n"`},
		{"\n@X { -\nA{1}:\t1\n}\n@Y { -\n{", `line 6, octet 25: an attribute is NAME{SIZE}: VALUE, there is "{"`},
	} {
		if _, err := soif.Repair([]byte(tt.in)); err == nil || err.Error() != tt.want {
			t.Errorf("%q: got %v, want %s", tt.in, err, tt.want)
		}
	}
}

// Objects that begin or end in unusual places are kept.
func TestRepairLosesNoObject(t *testing.T) {
	for in, want := range map[string]string{
		"\ufeff@X { -\n}\n": "X",
		"@X { -\nA{x}: 1\n\ufeff@Y { -\n}\n\ufeff@Z { -\n}": "X A=1 Y Z",
		"a@b {, \ufeff@X { -\n}\n":                          "X",
		"\ufeffsome text @X { -\n}; @Y { -\n}\n":            "X Y",
		"@X { -\nA{x}: 1 } @Y { - B{x}: 2 }\n":              "X A=1 Y B=2",
		"@X { -\nA{x}: B{x}: 1\n}\n":                        "X A= B=1",
		"@X { -\nA{x}: one\ntwo } @Y { -\n}\n":              "X A=one\ntwo Y",
		"@X { -\nA{x}: one}@Y { -\n}\n":                     "X A=one Y",
		"@X { -\nA{x}: one\n@Y {http://a\nB{1}:\t2\n}\n":    "X A=one Y B=2",
		"@X { -\nA{x}: one\n@Y\n{ http://a\n}\n":            "X A=one Y",
		"@X { -\nA{21}:\tHello\n}\n@Y { -\nB{1}:\tz\n}":     "X A=Hello Y B=z",
		"@X { -\nA{9}:\tHello\n}\n@Y { -\n":                 "X A=Hello Y",
		"@X { -\nA{3}:\tx {y}\nB{1}:\t1\n}\n}\n@Y { -\n}":   "X A=x {y} B=1 Y",
	} {
		fixed, err := soif.Repair([]byte(in))
		var got []string
		for _, o := range fixed.Objects {
			got = append(got, o.Type)
			for _, a := range o.Attributes {
				got = append(got, a.Name+"="+a.Value)
			}
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
}

// Each mistake is named once, and nothing else.
func TestRepairSaysEachMend(t *testing.T) {
	for in, want := range map[string]string{
		"@X { -\nA{1}:\t1\nB{2}:\t22\n}\n":       "",
		"@X { -\nA{x}: one\n}\n":                 `line 2: attribute "A": size {x}, now 3; TAB was missing`,
		"@X { -\nA{3}: one\n}\n":                 `line 2: attribute "A": TAB was missing`,
		"@X { -\nA{9}:\tone\n}\n":                `line 2: attribute "A": size {9}, now 3`,
		"@X { -\nA{03}:\tone\n}\n":               `line 2: attribute "A": size {03}, now 3`,
		"@X { -\nA:{3}\tone\n}\n":                `line 2: attribute "A": colon was before the size`,
		"@X { -\nA{ 3 }:\tone\n}\n":              `line 2: attribute "A": blanks were beside the size`,
		"@X { -\nA{3}:\tone\n@Y { }\n}\n":        `line 3: object without a } at its end; line 3: object without a URL, now -; line 4: a } too many, left out`,
		"@X { -\nA:{x}  one\nB{1}: 1\n":          `line 2: attribute "A": size {x}, now 3; colon was before the size; TAB was missing; line 3: attribute "B": TAB was missing; line 4: object without a } at its end`,
		"\ufefftext\n@X { -\n}\nmore\n\nlines\n": "skipped a byte order mark, 3 lines from line 1 on",
	} {
		fixed, err := soif.Repair([]byte(in))
		var got []string
		for _, m := range fixed.Mends {
			got = append(got, m.String())
		}
		if s := fixed.Skipped.String(); s != "" {
			got = append(got, "skipped "+s)
		}
		if err != nil || strings.Join(got, "; ") != want {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
}
