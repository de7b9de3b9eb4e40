package state_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// schemaName returns the name of the schema of a class, "" if it has none.
func schemaName(c *state.Class) string {
	for name, other := range state.Schemas {
		if other == c {
			return name
		}
	}
	return ""
}

func TestSchemasMatchGoldenFiles(t *testing.T) {
	schemas := maps.Clone(state.Schemas)
	maps.Copy(schemas, state.Facts)
	for name, c := range schemas {
		texts := map[string][]byte{".json": state.JSONSchema(c)}
		if state.Schemas[name] != nil {
			texts[".xsd"] = state.XMLSchema(c)
		}
		for ext, got := range texts {
			file := filepath.Join("testdata", "schema", name+ext)
			if *update {
				if err := os.WriteFile(file, got, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
			}
		}
	}
}

func TestSchemaOfJSONHoldsForDocuments(t *testing.T) {
	valid := func(c *state.Class, text string) error {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(state.JSONSchema(c)))
		if err != nil {
			t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		if err := compiler.AddResource("schema.json", doc); err != nil {
			t.Fatal(err)
		}
		schema, err := compiler.Compile("schema.json")
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(value)
	}
	n := 0
	for name, d := range documents() {
		if schemaName(d.Class) == "" {
			continue
		}
		n++
		if err := valid(d.Class, string(state.JSON.Append(nil, &d))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n < 2*len(state.Schemas)-1 {
		t.Errorf("only %d documents have a schema", n)
	}
	queue := fullQueue()
	d := state.OfQueue(base, &queue)
	text := string(state.JSON.Append(nil, &d))
	for _, tt := range []struct {
		old, new string
		ok       bool
	}{
		{`"numPendingJobs":3`, `"numPendingJobs":"3"`, false},
		{`"numPendingJobs":3`, `"numPendingJobs":3.5`, false},
		{`"numPendingJobs":3,`, ``, true},
		{`"numPendingJobs":3`, `"future":[3]`, true},
		{`"jobStates"`, `"jobs"`, false},
		{`"jobStates":[`, `"jobStates":["x",7,`, false},
		{`"jobStates":[`, `"jobStates":{"jobState":[]},"x":[`, false},
		{`"verifyOnRead":true`, `"verifyOnRead":"true"`, false},
		{`"created":"2010-04-20T16:00:00.000000Z"`, `"created":"yesterday"`, false},
		{`"queueState"`, `"jobState"`, false},
		{`mrt/cutie/queue/"`, `mrt/cutie/job/"`, false},
	} {
		changed := strings.Replace(text, tt.old, tt.new, 1)
		if changed == text {
			t.Fatalf("%s is not there", tt.old)
		}
		if err := valid(state.QueueClass, changed); (err == nil) != tt.ok {
			t.Errorf("%s for %s: got %v", tt.new, tt.old, err)
		}
	}
}

func TestSchemaOfXMLHoldsForDocuments(t *testing.T) {
	xmllint, err := exec.LookPath("xmllint")
	if err != nil {
		t.Skip("xmllint is not installed")
	}
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o666); err != nil {
			t.Fatal(err)
		}
		return file
	}
	// One call a class: its good documents, and one call for each bad one.
	validate := func(c *state.Class, files ...string) (string, bool) {
		schema := write("schema.xsd", state.XMLSchema(c))
		out, err := exec.Command(xmllint, append([]string{"--noout", "--nonet", "--schema", schema}, files...)...).CombinedOutput()
		return string(out), err == nil
	}
	good := map[*state.Class][]string{}
	for name, d := range documents() {
		good[d.Class] = append(good[d.Class], write(name+".xml", state.XML.Append(nil, &d)))
	}
	for i, text := range hostile {
		j := plainJob()
		j.Sidecar, j.Filename = text, text
		d := state.OfJob(base, &j)
		good[d.Class] = append(good[d.Class], write("hostile"+queuefs.JobID(i+1).String()+".xml", state.XML.Append(nil, &d)))
	}
	for name, c := range state.Schemas {
		if out, ok := validate(c, good[c]...); !ok {
			t.Errorf("%s: %s", name, out)
		}
	}
	// A list has its states without their declarations.
	for class, ok := range map[*state.Class]bool{state.JobClass: true, state.QueueClass: false} {
		list := "<job:jobStates xmlns:job=\"" + state.JobClass.Namespace + "\">\n"
		for _, d := range documents() {
			if d.Class == class {
				_, element, _ := strings.Cut(string(state.XML.Append(nil, &d)), "?>")
				list += element
			}
		}
		file := write("list.xml", []byte(list+"</job:jobStates>\n"))
		if out, valid := validate(state.JobClass, file); valid != ok {
			t.Errorf("list of %s: %s", class.Root, out)
		}
	}
	queue := fullQueue()
	d := state.OfQueue(base, &queue)
	text := string(state.XML.Append(nil, &d))
	for i, tt := range []struct {
		old, new string
		ok       bool
	}{
		{"<que:numPendingJobs>3<", "<que:numPendingJobs>3.5<", false},
		{"<que:numPendingJobs>3</que:numPendingJobs>", "", true},
		{"que:jobStates>", "que:jobs>", false},
		{"<que:verifyOnRead>true<", "<que:verifyOnRead>yes<", false},
		{"<que:created>2010-04-20T16:00:00.000000Z<", "<que:created>yesterday<", false},
		{"</que:queueState>", `<x:future xmlns:x="urn:x">1</x:future></que:queueState>`, true},
		{"</que:queueState>", "<que:future>1</que:future></que:queueState>", false},
	} {
		changed := strings.ReplaceAll(text, tt.old, tt.new)
		if changed == text {
			t.Fatalf("%s is not there", tt.old)
		}
		file := write("changed.xml", []byte(changed))
		if out, ok := validate(state.QueueClass, file); ok != tt.ok {
			t.Errorf("%d, %s for %s: %s", i, tt.new, tt.old, out)
		}
	}
}

// RDF tools read the same number of statements from our Turtle as we do, and
// none of them with a complaint.
func TestTurtleIsReadByOthers(t *testing.T) {
	rapper, err := exec.LookPath("rapper")
	if err != nil {
		t.Skip("rapper is not installed")
	}
	all := documents()
	j := plainJob()
	j.Sidecar, j.Filename = strings.Join(hostile, "|"), hostile[0]
	all["hostile"] = state.OfJob(base, &j)
	for name, d := range all {
		cmd := exec.Command(rapper, "-q", "-i", "turtle", "-o", "ntriples", "-", "http://base.example.org/")
		cmd.Stdin = bytes.NewReader(state.Turtle.Append(nil, &d))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
			continue
		}
		got := strings.Split(strings.TrimSpace(string(out)), "\n")
		want := 1      // that it is of its class
		d.Subject = "" // which Read leaves out
		for _, p := range d.Properties {
			want += 1 + 2*len(p.Items)
			if p.Always { // by the inner name, too
				want += len(p.Items)
			}
		}
		if len(got) != want {
			t.Errorf("%s: got %d statements, want %d\n%s", name, len(got), want, out)
		}
	}
}
