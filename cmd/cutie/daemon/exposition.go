package daemon

import (
	"math"
	"strconv"
	"strings"
)

// An exposition is what a program says of itself in the text format of
// Prometheus, version 0.0.4: families of samples, each with a line that
// explains it and one that says what kind it is. Units are seconds and octets,
// which the format calls bytes.
type exposition struct {
	text   []byte
	family string
}

const (
	expositionType = "text/plain; version=0.0.4; charset=utf-8"

	gauge   = "gauge"
	counter = "counter" // its name ends in _total
)

// begin begins a family; its samples follow at once.
func (e *exposition) begin(name, kind, help string) {
	e.family = name
	e.text = append(append(append(append(e.text, "# HELP "...), name...), ' '), escapeHelp.Replace(help)...)
	e.text = append(append(append(append(e.text, "\n# TYPE "...), name...), ' '), kind...)
	e.text = append(e.text, '\n')
}

// sample adds a value; labels are names and values in turn.
func (e *exposition) sample(value float64, labels ...string) {
	e.text = append(e.text, e.family...)
	for i := 0; i+1 < len(labels); i += 2 {
		mark := byte(',')
		if i == 0 {
			mark = '{'
		}
		e.text = append(append(append(e.text, mark), labels[i]...), `="`...)
		e.text = append(append(e.text, escapeLabel.Replace(labels[i+1])...), '"')
	}
	if len(labels) > 0 {
		e.text = append(e.text, '}')
	}
	e.text = append(e.text, ' ')
	switch {
	case math.IsInf(value, 1):
		e.text = append(e.text, "+Inf"...)
	case value == math.Trunc(value) && math.Abs(value) < 1<<53:
		e.text = strconv.AppendInt(e.text, int64(value), 10)
	default:
		e.text = strconv.AppendFloat(e.text, value, 'g', -1, 64)
	}
	e.text = append(e.text, '\n')
}

// one adds a family of one sample.
func (e *exposition) one(name, kind, help string, value float64, labels ...string) {
	e.begin(name, kind, help)
	e.sample(value, labels...)
}

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// truth is 1 for what is so.
func truth(so bool) float64 {
	if so {
		return 1
	}
	return 0
}
