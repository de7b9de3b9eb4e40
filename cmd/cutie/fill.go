package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/fault"
)

// An Origin says where the value of an option is from.
type Origin string

// The origins, each before the next.
const (
	Typed       Origin = "option"
	Environment Origin = "environment"
	File        Origin = "file"
	Default     Origin = "default"
)

// A Filler gives options values from outside the command line: from the
// environment, else from a file in TOML. Its names are those of the options, so that
// each setting is described once.
//
//	listen = "127.0.0.1:8080"
//	trusted-proxy = ["10.0.0.0/8"]
//	max-conns = 2000
//
// The variable of an option is its name in capitals with _ for -, after CUTIE_.
type Filler struct {
	Options *pflag.FlagSet
	Not     []string                 // options with neither variable nor line in the file
	Typed   func(name string) bool   // whether it stands on the command line
	Getenv  func(name string) string // as [os.Getenv]
	Origins map[string]Origin        // filled by Fill
}

// Prefix begins the names of variables.
const Prefix = "CUTIE_"

// Variable returns the environment variable of an option.
func Variable(option string) string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// elsewhere are variables of other commands, and of commands run by a worker.
var elsewhere = []string{"CUTIE_ATTEMPT", "CUTIE_CONFIG", "CUTIE_FILENAME", "CUTIE_HOME", "CUTIE_JOB", "CUTIE_LEASE", "CUTIE_MEDIA_TYPE",
	"CUTIE_PAYLOAD", "CUTIE_QUEUE", "CUTIE_RESULTS", "CUTIE_SIDECAR", "CUTIE_TOKEN", "CUTIE_UPLOADS", "CUTIE_URL", "CUTIE_USERS"}

// A Stray is a variable with the name of no setting, though it begins like one.
type Stray struct {
	Variable string
	Near     string // the variables that may be meant, joined by "or"; "" without one
}

// Strays returns the strays of an environment, with their values as in [os.Environ].
func (f *Filler) Strays(environ []string) (strays []Stray) {
	names := slices.Clone(elsewhere)
	f.Options.VisitAll(func(o *pflag.Flag) {
		if f.has(o.Name) {
			names = append(names, Variable(o.Name))
		}
	})
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, Prefix) && value != "" && !slices.Contains(names, name) {
			strays = append(strays, Stray{name, near(name, names)})
		}
	}
	slices.SortFunc(strays, func(a, b Stray) int { return strings.Compare(a.Variable, b.Variable) })
	return strays
}

// near returns the variables that may be meant by a name: all begin alike.
func near(name string, names []string) string {
	rest := make([]string, len(names))
	for i, n := range names {
		rest[i] = strings.TrimPrefix(n, Prefix)
	}
	found := fault.Near(strings.TrimPrefix(name, Prefix), rest)
	if found == "" {
		return ""
	}
	return Prefix + strings.ReplaceAll(found, " or ", " or "+Prefix)
}

// Fill sets the options that were not typed. Without a file, name is "". An error names
// the variable or the line.
func (f *Filler) Fill(name string) error {
	var file settings
	if name != "" {
		var err error
		if file, err = read(name); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(file.values)) {
		if !f.has(key) {
			return fault.Hint(fault.Usagef("%s: there is no setting %.40q", file.place(key), key), f.near(key))
		}
	}
	f.Origins = map[string]Origin{}
	var failed error
	f.Options.VisitAll(func(o *pflag.Flag) {
		if failed != nil || slices.Contains(f.Not, o.Name) {
			return
		}
		f.Origins[o.Name], failed = f.fill(o, &file)
	})
	return failed
}

// has reports whether a file may set an option.
func (f *Filler) has(name string) bool {
	return f.Options.Lookup(name) != nil && !slices.Contains(f.Not, name)
}

// near is the hint for an unknown setting.
func (f *Filler) near(name string) string {
	var names []string
	f.Options.VisitAll(func(o *pflag.Flag) {
		if f.has(o.Name) {
			names = append(names, o.Name)
		}
	})
	hint := "cutie config default lists them"
	if near := fault.Near(name, names); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return hint
}

// fill sets one option.
func (f *Filler) fill(o *pflag.Flag, file *settings) (Origin, error) {
	if f.Typed(o.Name) {
		return Typed, nil
	}
	if text := f.Getenv(Variable(o.Name)); text != "" {
		if err := f.Options.Set(o.Name, text); err != nil {
			return "", fault.Usagef("%s: %s", Variable(o.Name), fault.InOption(err))
		}
		return Environment, nil
	}
	value, there := file.values[o.Name]
	if !there {
		return Default, nil
	}
	if err := f.set(o, value); err != nil {
		return "", fault.Usagef("%s: %s", file.place(o.Name), fault.InOption(err))
	}
	return File, nil
}

// set gives an option a value of TOML.
func (f *Filler) set(o *pflag.Flag, value any) error {
	list, many := o.Value.(pflag.SliceValue)
	switch v := value.(type) {
	case []any:
		if !many {
			return fmt.Errorf("%s takes one value, not a list", o.Name)
		}
		texts := make([]string, len(v))
		for i, e := range v {
			text, ok := e.(string)
			if !ok {
				return fmt.Errorf("%s: %v is not a string", o.Name, e)
			}
			texts[i] = text
		}
		o.Changed = true
		return list.Replace(texts)
	case map[string]any:
		return fmt.Errorf("%s is one value, not a table", o.Name)
	case time.Time, toml.LocalDate, toml.LocalDateTime, toml.LocalTime, float64:
		return fmt.Errorf("%s: %v is neither a string, a whole number, true nor false", o.Name, v)
	case string:
		if many {
			o.Changed = true
			return list.Replace([]string{v})
		}
	}
	return f.Options.Set(o.Name, fmt.Sprint(value))
}
