package main_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Whatever is printed with -t json, or served as JSON, is plain objects that hold to
// the schemas of their types, as the daemon serves them.
func TestFactsInJSONHoldToTheirSchemas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, users := filepath.Join(dir, "home"), filepath.Join(dir, "users.txt")
	d := serveHome(t, home)
	seen := map[string]int{}
	check := func(what, text string) {
		t.Helper()
		for _, object := range objects(t, what, text) {
			of, _ := object["@type"].(string)
			if seen[of]++; of == "" {
				t.Errorf("%s: an object without a type: %v", what, object)
				continue
			}
			for name := range object {
				if strings.Contains(name, ":") {
					t.Errorf("%s: %s has a prefix", what, name)
				}
			}
			if err := schemaOf(t, d.url, of).Validate(object); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"put", "jobs", file, file, "-q"}, {"work", "jobs", "-n", "1", "--", "wc"},
		{"user", "add", "ann", "--no-password", "--rights", "read,submit:jobs", "--users", users},
	} {
		at := []string{"--url", d.url}
		if args[0] == "user" {
			at = nil
		}
		if out, err := cutie(t, append(args[:len(args):len(args)], at...)...); err != nil && args[0] != "work" {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	uws := d.url + "uws/jobs/async"
	job, err := cutie(t, "uws", "create", uws, "a=b")
	if err != nil {
		t.Fatal(err)
	}
	job = strings.TrimSpace(job)
	for _, args := range [][]string{
		{"version"}, {"help", "put"},
		{"user", "ls", "--users", users}, {"token", "add", "ann", "--users", users}, {"token", "ls", "--users", users},
		{"uws", "list", uws}, {"uws", "abort", job}, {"uws", "result", job}, {"uws", "show", job}, {"uws", "create", uws, "a=b"},
		{"ls", "-u", d.url}, {"ls", "jobs", "-u", d.url}, {"ls", "jobs", "--detail", "-u", d.url}, {"status", "-u", d.url},
		{"show", "jobs", "j000000000001", "-u", d.url}, {"delete", "jobs", "j000000000002", "-u", d.url},
		{"results", "jobs", "j000000000001", "-u", d.url}, {"watch", "jobs", "--from", "1", "-n", "3", "-u", d.url},
		{"export", filepath.Join(dir, "copy"), "-u", d.url},
		{"cull", "jobs", "--size", "0", "--age", "0", "-u", d.url},
		{"publish", "--status", "-u", d.url},
		{"sync", d.url, filepath.Join(dir, "mirror")}, {"sync", "-n", filepath.Join(dir, "mirror")},
		{"audit", filepath.Join(dir, "mirror")}, {"audit", "--source", d.url},
		{"backup", filepath.Join(dir, "backup"), "--home", home}, {"restore", filepath.Join(dir, "backup"), "--home", filepath.Join(dir, "restored")},
		{"get", "jobs", "--lease", "1m", "-o", filepath.Join(dir, "payload"), "-u", d.url},
	} {
		out, err := cutie(t, append(args, "-t", "json")...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		check(strings.Join(args, " "), out)
	}
	for _, path := range []string{"state", "state/jobs", "state/jobs/nosuch", "help", "nosuch", "batch/jobs/b1", "hub", ".well-known/resourcesync/about.json", ".well-known/resourcesync/jobs/replica/about.json"} {
		_, text := send(t, http.DefaultClient, "GET", d.url+path, "", "Accept", "application/json")
		check(path, text)
	}
	// Errors of commands.
	cmd := exec.Command("cutie", "show", "jobs", "j000000000009", "--url", d.url, "-t", "json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("got %v", err)
	}
	check("an error", stderr.String())
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	d = serveHome(t, filepath.Join(dir, "other")) // for its schemas
	out, err := cutie(t, "check", home, "-t", "json")
	if err != nil {
		t.Error(err)
	}
	check("check", out)
	for _, of := range []string{"version", "helpState", "user", "token", "uwsJob", "queueSummary", "queueState", "jobState", "cutieServiceState",
		"event", "export", "culledJob", "exceptionState", "error", "checkReport", "takenJob", "publishingState", "hubState", "about",
		"syncReport", "auditReport", "sourceReport", "backup", "restored"} {
		if seen[of] == 0 {
			t.Errorf("there was no %s among %v", of, seen)
		}
	}
}

// objects are those in a text: one alone, an array, or one after the other.
func objects(t *testing.T, what, text string) (all []map[string]any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	for d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			t.Fatalf("%s: %v in %s", what, err, text)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, v := range list {
			object, ok := v.(map[string]any)
			if !ok {
				t.Fatalf("%s: %v is no object", what, v)
			}
			all = append(all, object)
		}
	}
	return all
}

// schemaOf gets the schema of a type from a daemon.
func schemaOf(t *testing.T, base, of string) *jsonschema.Schema {
	t.Helper()
	resp, text := send(t, http.DefaultClient, "GET", base+"schema/"+of+".json", "")
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("schema of %s: %d %v", of, resp.StatusCode, err)
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
	return schema
}
