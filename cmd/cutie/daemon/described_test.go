package daemon

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"cutie/queuefs/web"
)

// The description by OpenAPI has every route of a daemon with everything, with its right and
// the parameters of its path, and nothing else.
func TestEveryRouteIsDescribed(t *testing.T) {
	rows := table()
	text, err := description(&rows)()
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Paths map[string]map[string]struct {
			Summary     string   `json:"summary"`
			OperationID string   `json:"operationId"`
			Tags        []string `json:"tags"`
			Right       string   `json:"x-right"`
			Parameters  []struct{ Name, In string }
			Responses   map[string]any `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	used, ids := map[string]bool{}, map[string]string{}
	routes := 0
	for _, row := range rows {
		name := row.Method + " " + row.Path
		if used[name] = true; row.Serve == nil || strings.HasSuffix(row.Path, "/") && used[strings.TrimSuffix(name, "/")] {
			continue
		}
		words := []string{""}
		if m := regexp.MustCompile(`\{[a-z]+:([a-z.|-]+)\}`).FindStringSubmatch(row.Path); m != nil {
			words = strings.Split(m[1], "|")
		}
		for _, word := range words {
			path := regexp.MustCompile(`\{[a-z]+:[a-z.|-]+\}`).ReplaceAllString(row.Path, word)
			path = regexp.MustCompile(`:[^}]*\}`).ReplaceAllString(path, "}")
			op, ok := d.Paths[path][strings.ToLower(row.Method)]
			if !ok {
				t.Errorf("%s is not described at %s", name, path)
				continue
			}
			routes++
			if other := ids[op.OperationID]; other != "" {
				t.Errorf("%s and %s have the same operationId", name, other)
			}
			ids[op.OperationID] = name
			right := ""
			if row.Need.Right > 0 {
				right = row.Need.Right.String()
			}
			if op.Summary == "" || len(op.Tags) != 1 || op.Tags[0] == "" || op.Right != right || len(op.Responses) < 8 {
				t.Errorf("%s: got %+v", name, op)
			}
			inPath := 0
			for _, p := range op.Parameters {
				if p.In == "path" && strings.Contains(path, "{"+p.Name+"}") {
					inPath++
				}
			}
			if inPath != strings.Count(path, "{") {
				t.Errorf("%s: got the parameters %v", name, op.Parameters)
			}
		}
	}
	for name := range operations {
		if !used[name] {
			t.Errorf("%s is described, and is no route", name)
		}
	}
	described := 0
	for _, methods := range d.Paths {
		described += len(methods)
	}
	if described != routes {
		t.Errorf("got %d operations for %d routes", described, routes)
	}
	rows = append(rows, web.Route{Method: "GET", Path: "/new", Serve: atHome(nil)})
	if _, err := description(&rows)(); err == nil || !strings.Contains(err.Error(), "GET /new") {
		t.Errorf("a route without a description: got %v", err)
	}
}
