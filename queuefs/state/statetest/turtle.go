package statetest

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cutie/queuefs/state"
)

// ErrNoReader is the error for Turtle where rapper, of the Raptor RDF library, is not
// installed.
var ErrNoReader = errors.New("rapper, which reads Turtle, is not installed")

// Readable returns the forms that can be read here.
func Readable(forms []state.Form) (some []state.Form) {
	_, err := exec.LookPath("rapper")
	for _, f := range forms {
		if f != state.Turtle || err == nil {
			some = append(some, f)
		}
	}
	return some
}

const rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

// A line is one of N-Triples, as rapper writes them: subject, predicate, and the object as
// a node or as a literal.
var line = regexp.MustCompile(`^(\S+) <([^>]*)> (?:(<[^>]*>|_:\S+)|("(?:[^"\\]|\\.)*")\S*) \.$`)

// A graph has the objects of each subject and predicate, in order.
type graph map[string]map[string][]string

func parseTurtle(data []byte) (graph, error) {
	program, err := exec.LookPath("rapper")
	if err != nil {
		return nil, ErrNoReader
	}
	var stderr bytes.Buffer
	cmd := exec.Command(program, "-q", "-i", "turtle", "-o", "ntriples", "-", "http://base.example.org/")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(data), &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	g := graph{}
	for text := range strings.Lines(string(out)) {
		m := line.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
		if m == nil {
			return nil, fmt.Errorf("line %.200q", text)
		}
		object := m[3]
		if m[4] != "" {
			if object, err = strconv.Unquote(m[4]); err != nil {
				return nil, fmt.Errorf("literal %.200q", m[4])
			}
		} else if strings.HasPrefix(object, "<") {
			if object, err = strconv.Unquote(`"` + strings.Trim(object, "<>") + `"`); err != nil {
				return nil, fmt.Errorf("reference %.200q", m[3])
			}
		}
		if g[m[1]] == nil {
			g[m[1]] = map[string][]string{}
		}
		g[m[1]][m[2]] = append(g[m[1]][m[2]], object)
	}
	return g, nil
}

// decodeTurtle reads the statements about the one subject that has the class, or
// properties in its namespace. A list without a collection has its items under their own
// name, as Merritt wrote them.
func decodeTurtle(c *state.Class, data []byte) (values, error) {
	g, err := parseTurtle(data)
	if err != nil {
		return nil, err
	}
	var v values
	for _, statements := range g {
		mine := make(values, len(c.Terms))
		some := slices.Contains(statements[rdf+"type"], c.Namespace+"/"+c.Root)
		for i := range c.Terms {
			t := &c.Terms[i]
			of := statements[c.Namespace+"/"+t.Name]
			items := statements[c.Namespace+"/"+t.Item]
			switch {
			case t.Item != "" && of == nil && items != nil:
				some, err = true, mine[i].list(items)
			case of == nil:
			case len(of) != 1:
				err = fmt.Errorf("%d values", len(of))
			case t.Item == "":
				some, err = true, mine[i].add(of[0])
			default:
				some = true
				if items, err = g.collection(of[0]); err == nil {
					err = mine[i].list(items)
				}
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.Name, err)
			}
		}
		if some && v != nil {
			return nil, errors.New("more than one subject")
		}
		if some {
			v = mine
		}
	}
	if v == nil {
		return nil, fmt.Errorf("no %s:%s", c.Prefix, c.Root)
	}
	return v, nil
}

// collection returns the items of an RDF collection.
func (g graph) collection(at string) (items []string, err error) {
	for at != rdf+"nil" {
		first, rest := g[at][rdf+"first"], g[at][rdf+"rest"]
		if len(first) != 1 || len(rest) != 1 || len(items) > len(g) {
			return nil, errors.New("value is no collection")
		}
		items, at = append(items, first[0]), rest[0]
	}
	return items, nil
}
