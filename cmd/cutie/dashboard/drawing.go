package dashboard

import (
	"bytes"
	"html/template"
	"math"
	"strconv"
	"time"

	"github.com/go-analyze/charts/chartdraw"
)

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
