package dashboard

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A chart is a figure of one or two lines over time.
type chart struct {
	Title, Alt string
	Lines      []line
	Drawing    template.HTML
	Most       string // the greatest figure, with its time
}

// A line is the name of one figure and its last value.
type line struct{ Name, Now string }

// A plot says what a chart shows.
type plot struct {
	title   string
	figures []Measure
	names   []string
	unit    func(float64) string
	round   func(float64) float64 // up to the end of an axis
	quiet   bool                  // left out while all figures are 0
}

var plots = []plot{
	{title: "Jobs", figures: []Measure{Pending, InWork}, names: []string{"pending", "in work"}, unit: whole, round: roundJobs},
	{title: "Jobs a second", figures: []Measure{In, Out}, names: []string{"in", "out"}, unit: precise, round: roundUp},
	{title: "Failures a minute", figures: []Measure{Failed}, names: []string{"failed"}, unit: precise, round: roundUp},
	{title: "Age of the oldest pending job", figures: []Measure{Oldest}, names: []string{"oldest"}, unit: lasting, round: roundTime},
	{title: "Time of a job", figures: []Measure{Queued, Worked}, names: []string{"in the queue", "in work"}, unit: lasting, round: roundTime},
	{title: "Published lists behind", figures: []Measure{Unpublished}, names: []string{"behind"}, unit: lasting, round: roundTime},
	{title: "Mirrors behind, events", figures: []Measure{MirrorLag}, names: []string{"behind"}, unit: whole, round: roundJobs, quiet: true},
	{title: "Free disk", figures: []Measure{FreeDisk}, names: []string{"free"}, unit: size, round: roundUp},
	{title: "Memory of the daemon", figures: []Measure{Memory}, names: []string{"resident"}, unit: size, round: roundUp},
}

// firstCharts is how many charts pages beside those of the history have.
const firstCharts = 4

// charts draws the first charts, at most so many, of the points of a span until now. latest are
// the points of the last hour.
func charts(points, latest []Point, span Span, most int, now time.Time) (all []chart) {
	for i := range plots {
		if c, ok := plots[i].draw(points, latest, span, now); ok && len(all) < most {
			all = append(all, c)
		}
	}
	return all
}

// draw returns the chart, false if none of its figures is known.
func (p *plot) draw(points, latest []Point, span Span, now time.Time) (chart, bool) {
	c := chart{Title: p.title}
	rows := make([][]float64, len(p.figures))
	top, at := math.Inf(-1), 0
	var said []string
	for i, m := range p.figures {
		rows[i] = greatest(points, m, chartWidth)
		for x, f := range rows[i] {
			if f >= top { // of equal ones the last
				top, at = f, x
			}
		}
		l := line{Name: p.names[i], Now: "–"}
		last := greatest(latest[max(len(latest)-3, 0):], m, 3) // the last step may have no figure yet
		for _, f := range slices.Backward(last) {
			if !math.IsNaN(f) {
				l.Now = p.unit(f)
				break
			}
		}
		said = append(said, l.Name+" "+l.Now)
		c.Lines = append(c.Lines, l)
	}
	if math.IsInf(top, 0) || p.quiet && top == 0 {
		return c, false
	}
	c.Most = "at most " + p.unit(top)
	if top > 0 {
		c.Most += " (" + timeOf(span, spans[span].layout, now, chartWidth-1-at, chartWidth) + ")"
	}
	c.Alt = fmt.Sprintf("%s over the last %s: now %s, %s", p.title, spans[span].words, strings.Join(said, ", "), c.Most)
	c.Drawing = p.drawing(rows, top, at, span, now)
	return c, true
}

// timeOf returns the time of the nth step back of a span in so many steps.
func timeOf(span Span, layout string, now time.Time, back, steps int) string {
	step := spans[span].step * Points / time.Duration(steps)
	return now.Add(-step * time.Duration(back)).UTC().Format(layout)
}

// greatest joins a figure of points to n, the greatest of each part. Failures are those of a minute.
func greatest(points []Point, m Measure, n int) []float64 {
	row := make([]float64, n)
	for i := range row {
		row[i] = math.NaN()
		for _, point := range points[i*len(points)/n : (i+1)*len(points)/n] {
			if f := float64(point[m]); !math.IsNaN(f) && !math.IsInf(f, 0) && !(row[i] >= f) {
				row[i] = f
			}
		}
		if m == Failed {
			row[i] *= 60
		}
	}
	return row
}

func whole(f float64) string { return grouped(strconv.FormatFloat(math.Round(f), 'f', 0, 64)) }

// precise prints three digits.
func precise(f float64) string {
	if f >= 100 {
		return whole(f)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

func size(f float64) string {
	if s := octets(int64(f)); s != "" {
		return s
	}
	return whole(f) + " B"
}

// lasting prints seconds in a suitable unit.
func lasting(f float64) string {
	switch {
	case f < 1:
		return whole(f*1000) + " ms"
	case f < 120:
		return precise(f) + " s"
	case f < 2*3600:
		return whole(f/60) + " min"
	case f < 48*3600:
		return precise(f/3600) + " h"
	}
	return precise(f/86400) + " days"
}

// roundUp returns the next figure with a round half: 1, 2, 3, 4, 5, 6, 8 or 10 times a power
// of ten.
func roundUp(f float64) float64 {
	if f <= 0 {
		return 1
	}
	return atLeast(f, math.Pow(10, math.Floor(math.Log10(f))), 1, 2, 3, 4, 5, 6, 8, 10)
}

// roundJobs returns a number with a whole half.
func roundJobs(f float64) float64 {
	if f <= 10 {
		return atLeast(f, 2, 1, 2, 3, 4, 5)
	}
	return roundUp(f)
}

// roundTime returns a time, in seconds, with a half in the same unit.
func roundTime(f float64) float64 {
	switch {
	case f <= 1:
		return roundUp(f)
	case f <= 60:
		return atLeast(f, 1, 2, 4, 6, 10, 20, 30, 60)
	case f <= 3600:
		return atLeast(f, 60, 2, 4, 6, 10, 20, 30, 60)
	case f <= 86400:
		return atLeast(f, 3600, 2, 4, 6, 12, 24)
	}
	return 86400 * roundUp(f/86400)
}

// atLeast returns the first multiple of a unit that is not below f. A figure has 24 bits.
func atLeast(f, unit float64, multiples ...float64) float64 {
	for _, n := range multiples {
		if f <= n*unit*1.000001 {
			return n * unit
		}
	}
	return f
}

// A historyPage has all charts of the service or of a queue.
type historyPage struct {
	head
	Charts  []chart
	Spans   []link // the chosen one without a reference
	Columns []string
	Rows    [][]string
	None    string
}

// tableRows is how many rows the table of a history has.
const tableRows = 24

// Charts returns the charts of a queue, "" for the service. points are nil
// if there is none; latest are those of the last hour.
func Charts(v Site, queue, name string, span Span, points, latest []Point, now time.Time) []byte {
	way := []crumb{{Class: "step", Text: "Charts"}}
	title, self := "Charts of the service", v.Base.Ref("history")
	if queue != "" {
		way = []crumb{{"step", v.page("state", queue), queue}, {Class: "step", Text: "Charts"}}
		title, self = "Charts of queue "+name, v.Base.Ref("history", queue)
	}
	p := &historyPage{head: v.head(title, way...)}
	for s := range Spans {
		l := link{self + "?span=" + spans[s].name, spans[s].name}
		if s == span {
			l.Ref = ""
		}
		p.Spans = append(p.Spans, l)
	}
	if points == nil {
		p.None = fmt.Sprintf("There are figures of the %d busiest queues only. This queue had no activity lately.", Queues)
	} else {
		p.Charts = charts(points, latest, span, len(plots), now)
		p.tabulate(points, span, now)
	}
	return v.write("history", p)
}

// tabulate adds the table, the last time first. What is never known has no column.
func (p *historyPage) tabulate(points []Point, span Span, now time.Time) {
	rows := make([][]string, tableRows)
	known := make([]bool, tableRows)
	for i := range plots {
		for k, m := range plots[i].figures {
			figures := greatest(points, m, tableRows)
			if !slices.ContainsFunc(figures, func(f float64) bool { return !math.IsNaN(f) }) {
				continue
			}
			title := plots[i].title
			if len(plots[i].figures) > 1 {
				title += ", " + plots[i].names[k]
			}
			p.Columns = append(p.Columns, title)
			for n, f := range figures {
				text := "–"
				if !math.IsNaN(f) {
					text, known[n] = plots[i].unit(f), true
				}
				rows[n] = append(rows[n], text)
			}
		}
	}
	for n, row := range slices.Backward(rows) {
		if known[n] {
			p.Rows = append(p.Rows, append([]string{timeOf(span, spans[Month].layout, now, tableRows-1-n, tableRows)}, row...))
		}
	}
}

// chartWidth is how many figures a line has.
const chartWidth = 120

// The plane of the lines within a drawing of 600 by 240, which is scaled to its place. Times
// stand below it, levels to its left.
const (
	planeLeft, planeRight = 76, 588
	planeTop, planeBottom = 25, 202
)

// drawing draws rows of figures, the greatest of them top, in the column most. The sheet of
// pages gives the colors by the classes: the policy of pages refuses attributes of style.
func (p *plot) drawing(rows [][]float64, top float64, most int, span Span, now time.Time) template.HTML {
	end := p.round(top)
	x := func(step float64) float64 { return planeLeft + (planeRight-planeLeft)*step/chartWidth }
	y := func(f float64) float64 { return planeBottom - (planeBottom-planeTop)*f/end }
	var b strings.Builder
	path := func(class, format string, a ...any) {
		fmt.Fprintf(&b, `<path class="%s" d="`+format+`"/>`, append([]any{class}, a...)...)
	}
	text := func(anchor string, x, y float64, text string) {
		fmt.Fprintf(&b, `<text text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, anchor, x, y, text)
	}
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 240">`)
	all := spans[span].step * Points
	first := now.UTC().Add(-all)
	for t := first.Truncate(spans[span].tick); t.Before(now); t = t.Add(spans[span].tick) {
		if t.After(first) {
			at := x(chartWidth * float64(t.Sub(first)) / float64(all))
			path("axis", "M%.1f %dv5", at, planeBottom)
			text("middle", at, 238, t.Format(spans[span].tickLayout))
		}
	}
	for i, label := range []string{"0", p.unit(end / 2), p.unit(end)} {
		at := y(end / 2 * float64(i))
		path("grid", "M%d %.1fH%d", planeLeft, at, planeRight)
		text("end", planeLeft-6, at+13, label)
	}
	for i, row := range rows {
		for _, one := range unbroken(row) {
			d := strings.Builder{}
			for n, at := range one {
				fmt.Fprintf(&d, "%c%.1f %.1f", "ML"[min(n, 1)], x(at[0]), y(at[1]))
			}
			path("line"+strconv.Itoa(i), "%s", d.String())
		}
	}
	if top > 0 {
		path("most", "M%.1f %.1fh0", x(float64(most)), y(top))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// unbroken returns the lines through figures, each with its columns and figures. Unknown ones
// are gaps, but a gap of one figure is drawn over, and one figure alone is a short line.
func unbroken(row []float64) (all [][][2]float64) {
	last := -3
	for x, f := range row {
		if math.IsNaN(f) {
			continue
		}
		if x-last > 2 {
			all = append(all, nil)
		}
		n := len(all) - 1
		all[n] = append(all[n], [2]float64{float64(x), f})
		last = x
	}
	for i, one := range all {
		if len(one) == 1 {
			all[i] = append(one, [2]float64{one[0][0] + 1, one[0][1]})
		}
	}
	return all
}
