package dashboard

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-analyze/charts/chartdraw"
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
	scale   float64
	quiet   bool // left out while all figures are 0
}

var plots = []plot{
	{title: "Jobs", figures: []Measure{Pending, InWork}, names: []string{"pending", "in work"}, unit: whole, round: roundJobs},
	{title: "Jobs a second", figures: []Measure{In, Out}, names: []string{"in", "out"}, unit: precise, round: roundUp},
	{title: "Failures a minute", figures: []Measure{Failed}, names: []string{"failed"}, unit: precise, round: roundUp, scale: 60},
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
	top, at, some := 0.0, 0, false
	for i, m := range p.figures {
		rows[i] = p.row(points, m, chartWidth)
		for x, f := range rows[i] {
			if math.IsNaN(f) {
				continue
			}
			if !some || f >= top { // of equal ones the last
				top, at = f, x
			}
			some = true
		}
	}
	if !some || p.quiet && top == 0 {
		return c, false
	}
	c.Most = "at most " + p.unit(top)
	if top > 0 {
		c.Most += " (" + timeOf(span, now, at) + ")"
	}
	var said []string
	for i := range rows {
		l := line{Name: p.names[i], Now: "–"}
		for n := len(latest) - 1; n >= len(latest)-3; n-- { // the last step may have no figure yet
			if f := float64(latest[n][p.figures[i]]); !math.IsNaN(f) {
				l.Now = p.unit(f * p.factor())
				break
			}
		}
		said = append(said, l.Name+" "+l.Now)
		c.Lines = append(c.Lines, l)
	}
	c.Alt = fmt.Sprintf("%s over the last %s: now %s, %s", p.title, spanTimes[span], strings.Join(said, ", "), c.Most)
	c.Drawing = p.drawing(rows, top, at, span, now)
	return c, true
}

var (
	spanTimes = [Spans]string{"hour", "day", "30 days"}
	// layouts are those of times in a span.
	layouts = [Spans]string{"15:04", "15:04", "01-02 15:04"}
)

// timeOf returns the time of a step of a line.
func timeOf(span Span, now time.Time, x int) string {
	step := span.Step() * Points / chartWidth
	return now.Add(-step * time.Duration(chartWidth-1-x)).UTC().Format(layouts[span])
}

func nans(n int) []float64 {
	row := make([]float64, n)
	for i := range row {
		row[i] = math.NaN()
	}
	return row
}

func (p *plot) factor() float64 {
	if p.scale != 0 {
		return p.scale
	}
	return 1
}

// row joins the figures of points to n, the greatest of each part.
func (p *plot) row(points []Point, m Measure, n int) []float64 {
	row := nans(n)
	for i := range row {
		for _, point := range points[i*len(points)/n : (i+1)*len(points)/n] {
			if f := float64(point[m]); !math.IsNaN(f) && !math.IsInf(f, 0) && !(row[i] >= f) {
				row[i] = f
			}
		}
		row[i] *= p.factor()
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

// roundUp returns the next figure with a round half: 1, 2, 3, 4, 5, 6, 8 or 10 times a power
// of ten.
func roundUp(f float64) float64 {
	if f <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(f)))
	for _, n := range []float64{1, 2, 3, 4, 5, 6, 8} {
		if f <= n*power*1.000001 { // a figure has 24 bits
			return n * power
		}
	}
	return 10 * power
}

// roundJobs returns a number with a whole half.
func roundJobs(f float64) float64 {
	if f = roundUp(max(f, 2)); f < 10 {
		f = 2 * math.Ceil(f/2)
	}
	return f
}

// roundTime returns a time, in seconds, with a half in the same unit.
func roundTime(f float64) float64 {
	const minute, hour, day = 60, 3600, 86400
	if f <= 1 {
		return roundUp(f)
	}
	for _, n := range []float64{2, 4, 6, 10, 20, 30, minute, 2 * minute, 4 * minute, 6 * minute, 10 * minute, 20 * minute, 30 * minute,
		hour, 2 * hour, 4 * hour, 6 * hour, 12 * hour, day} {
		if f <= n {
			return n
		}
	}
	return day * roundUp(f/day)
}

// lasting prints seconds in a suitable unit.
func lasting(f float64) string {
	switch {
	case f < 1:
		return strconv.FormatFloat(math.Round(f*1000), 'f', 0, 64) + " ms"
	case f < 120:
		return precise(f) + " s"
	case f < 2*3600:
		return whole(f/60) + " min"
	case f < 48*3600:
		return precise(f/3600) + " h"
	}
	return precise(f/86400) + " days"
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
	title := "Charts of the service"
	if queue != "" {
		way = []crumb{{"step", v.page("state", queue), queue}, {Class: "step", Text: "Charts"}}
		title = "Charts of queue " + name
	}
	p := &historyPage{head: v.head(title, way...)}
	self := v.Base.Ref("history")
	if queue != "" {
		self = v.Base.Ref("history", queue)
	}
	for s := range Spans {
		l := link{self + "?span=" + s.String(), s.String()}
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

// tabulate adds the table.
func (p *historyPage) tabulate(points []Point, span Span, now time.Time) {
	var columns [][]string
	for i := range plots {
		one := &plots[i]
		for k, m := range one.figures {
			row := one.row(points, m, tableRows)
			column, some := make([]string, tableRows), false
			for n, f := range row {
				if column[n] = "–"; !math.IsNaN(f) {
					column[n], some = one.unit(f), true
				}
			}
			if some {
				columns = append(columns, column)
				title := one.title
				if len(one.figures) > 1 {
					title += ", " + one.names[k]
				}
				p.Columns = append(p.Columns, title)
			}
		}
	}
	step := span.Step() * Points / tableRows
	for n := tableRows - 1; n >= 0; n-- {
		row := []string{now.Add(-step * time.Duration(tableRows-1-n)).UTC().Format("01-02 15:04")}
		some := false
		for _, c := range columns {
			row, some = append(row, c[n]), some || c[n] != "–"
		}
		if some {
			p.Rows = append(p.Rows, row)
		}
	}
}

// Charts are drawn by chartdraw with a class for everything, so that the sheet of pages
// gives the colors. Its grid lines take no class and have style attributes, refused by the
// policy of pages: they are hidden, and lines of the chart stand in their place. Tried, too:
// go-chart 2.1 (archived; an unknown figure breaks the whole drawing), svgo (its license is
// not permissive for programs; no release since 2021), the charts of go-analyze above
// chartdraw and gonum/plot 0.17 (style attributes everywhere).

// chartWidth is how many figures a line has.
const chartWidth = 120

// Size of a drawing, and of its text. It is scaled to its place.
const (
	drawingWidth  = 600
	drawingHeight = 240
	drawingText   = 19 // points
)

// drawing draws rows of figures, the greatest of them top, in the column most.
func (p *plot) drawing(rows [][]float64, top float64, most int, span Span, now time.Time) template.HTML {
	hidden := chartdraw.Style{Hidden: true}
	axis := chartdraw.Style{ClassName: "axis", FontStyle: chartdraw.FontStyle{FontSize: drawingText}}
	var levels []chartdraw.Tick
	var lines []chartdraw.Series
	end := p.round(top)
	for _, y := range []float64{0, end / 2, end} {
		levels = append(levels, chartdraw.Tick{Value: y, Label: p.unit(y)})
		lines = append(lines, segment("grid", []float64{0, chartWidth}, []float64{y, y}))
	}
	levels[0].Label = "0"
	for i, row := range rows {
		lines = append(lines, segments("line"+strconv.Itoa(i), row)...)
	}
	if top > 0 {
		x := float64(most)
		lines = append(lines, segment("most", []float64{x, x}, []float64{top, top}))
	}
	graph := chartdraw.Chart{
		Width: drawingWidth, Height: drawingHeight,
		Background:     chartdraw.Style{ClassName: "back", Padding: chartdraw.NewBox(12, 2, 12, 2)},
		Canvas:         chartdraw.Style{ClassName: "back"},
		XAxis:          chartdraw.XAxis{Style: axis, Ticks: timeTicks(span, now), GridMajorStyle: hidden, GridMinorStyle: hidden},
		YAxis:          chartdraw.YAxis{Style: hidden, Range: &chartdraw.ContinuousRange{Max: end}},
		YAxisSecondary: chartdraw.YAxis{Style: axis, Ticks: levels, Zero: chartdraw.GridLine{Style: hidden}, GridMajorStyle: hidden, GridMinorStyle: hidden},
		Series:         lines,
	}
	var b bytes.Buffer
	if err := graph.Render(chartdraw.SVGWithCSS("", ""), &b); err != nil {
		panic(err) // a bug: all figures are finite, and ranges not empty
	}
	return template.HTML(bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte(" ")))
}

// timeTicks returns the labels of the time axis, at round times. Its ends have none.
func timeTicks(span Span, now time.Time) []chartdraw.Tick {
	every := [Spans]time.Duration{15 * time.Minute, 6 * time.Hour, 7 * 24 * time.Hour}[span]
	layout := [Spans]string{"15:04", "15:04", "01-02"}[span]
	all := span.Step() * Points
	first := now.UTC().Add(-all)
	ticks := []chartdraw.Tick{{Value: 0}}
	for t := first.Truncate(every).Add(every); t.Before(now); t = t.Add(every) {
		ticks = append(ticks, chartdraw.Tick{Value: chartWidth * float64(t.Sub(first)) / float64(all), Label: t.Format(layout)})
	}
	return append(ticks, chartdraw.Tick{Value: chartWidth})
}

// segments returns a line through figures, with gaps for unknown ones. A gap of one figure is
// drawn over.
func segments(class string, row []float64) (all []chartdraw.Series) {
	var xs, ys []float64
	for x := 0; x <= len(row); x++ {
		switch known := x < len(row) && !math.IsNaN(row[x]); {
		case known:
			xs, ys = append(xs, float64(x)), append(ys, row[x])
		case len(xs) > 0 && (x >= len(row)-1 || math.IsNaN(row[x+1])):
			if len(xs) == 1 { // one figure alone is seen
				xs, ys = append(xs, xs[0]+1), append(ys, ys[0])
			}
			all = append(all, segment(class, xs, ys))
			xs, ys = nil, nil
		}
	}
	return all
}

func segment(class string, x, y []float64) chartdraw.Series {
	return chartdraw.ContinuousSeries{Style: chartdraw.Style{ClassName: class}, YAxis: chartdraw.YAxisSecondary, XValues: x, YValues: y}
}
