package rest

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/home"
)

// setProperty gives a queue a property. An empty value unsets it.
func setProperty(info *queuefs.QueueInfo, name, value string, now time.Time) error {
	if err := checkText(name, value); err != nil {
		return err
	}
	if name == "S" {
		switch {
		case value == "restart":
			info.Paused = time.Time{}
		case value != "pause":
			return badRequest("S is %.40q, neither pause nor restart", value)
		case info.Paused.IsZero():
			info.Paused = now
		}
		return nil
	}
	p := home.PropertyNamed(name)
	if p == nil || p.Fixed {
		return badRequest("%.40q is not known here: it is no property to give a queue", name)
	}
	return p.Set(info, value)
}

// checkText refuses control characters, line ends among them, and characters outside
// of XML 1.0: a property is one line, and no form of a state says another text.
func checkText(name, value string) error {
	for i, r := range value {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(value[i:], "\ufffd"):
			return badRequest("%.40q is not UTF-8 at octet %d", name, i)
		case r == '\n' || r == '\r':
			return badRequest("%.40q has a line end at octet %d, and a property is one line", name, i)
		case r < ' ', r == 0x7f, r == 0xfffe, r == 0xffff:
			return badRequest("%.40q has the character %U at octet %d, which a state cannot say", name, r, i)
		}
	}
	return nil
}

// parseNumber reads a number; the empty text leaves it unset.
func parseNumber(name, value string) (int64, error) {
	if value == "" {
		return -1, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return 0, badRequest("%s is %.40q, not a number from 0 to %d", name, value, int64(math.MaxInt64))
	}
	return n, nil
}

// propertiesOfJSON reads an object with the names and values of properties, or the state
// of a queue.
func propertiesOfJSON(data []byte) (anvl.Record, error) {
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, badRequest("JSON: %v", err)
	}
	var rec anvl.Record
	for name, value := range object {
		if strings.HasPrefix(name, "@") { // of JSON-LD
			continue
		}
		switch v := value.(type) {
		case nil:
		case string:
			rec.Add(name, v)
		case bool:
			rec.Add(name, strconv.FormatBool(v))
		case float64:
			rec.Add(name, strconv.FormatFloat(v, 'f', -1, 64))
		default:
			return nil, badRequest("%s: %s is no value for a property", name, fmt.Sprintf("%.40v", v))
		}
	}
	return rec, nil
}
