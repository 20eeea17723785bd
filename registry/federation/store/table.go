// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/printable"
)

// None is the content of an empty cell.
const None = "<none>"

// Column is a column in addition to Name and Age, which every table has.
type Column[P runtime.Object] struct {
	// Name is the title, which kubectl prints in capitals.
	Name string
	// Type is the OpenAPI type of the cells; empty means string.
	Type string
	// Description describes the column in the response; kubectl get does not print it.
	Description string
	// Wide is true for a column that kubectl prints only with -o wide, after the age.
	Wide bool
	// Cell returns the value of the column for an object.
	Cell func(obj P) any
}

// Table has the columns of one kind in their order.
type Table[P runtime.Object] []Column[P]

// ConvertToTable returns a table with one row for an object, or one for each item of a list.
func (t Table[P]) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if opts, ok := options.(*metav1.TableOptions); !ok || !opts.NoHeaders {
		table.ColumnDefinitions = t.definitions()
	}
	add := func(obj runtime.Object) error {
		cells, err := t.cells(obj)
		if err != nil {
			return err
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: obj}})
		return nil
	}
	if !meta.IsListType(object) {
		common, err := meta.CommonAccessor(object)
		if err != nil {
			return nil, err
		}
		table.ResourceVersion = common.GetResourceVersion()
		return table, add(object)
	}
	list, err := meta.ListAccessor(object)
	if err != nil {
		return nil, err
	}
	table.ResourceVersion = list.GetResourceVersion()
	table.Continue = list.GetContinue()
	table.RemainingItemCount = list.GetRemainingItemCount()
	return table, meta.EachListItem(object, add)
}

func (t Table[P]) definitions() []metav1.TableColumnDefinition {
	docs := metav1.ObjectMeta{}.SwaggerDoc()
	narrow := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: docs["name"]}}
	var wide []metav1.TableColumnDefinition
	for _, column := range t {
		definition := metav1.TableColumnDefinition{Name: column.Name, Type: column.Type, Description: column.Description}
		if definition.Type == "" {
			definition.Type = "string"
		}
		if column.Wide {
			definition.Priority = 1
			wide = append(wide, definition)
			continue
		}
		narrow = append(narrow, definition)
	}
	age := metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: docs["creationTimestamp"]}
	return append(append(narrow, age), wide...)
}

func (t Table[P]) cells(obj runtime.Object) ([]any, error) {
	typed, ok := obj.(P)
	if !ok {
		return nil, fmt.Errorf("expected a %T, got a %T", *new(P), obj)
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	narrow := []any{accessor.GetName()}
	var wide []any
	for _, column := range t {
		cell := column.Cell(typed)
		if text, ok := cell.(string); ok {
			// Peers write parts of some cells.
			cell = printable.Line(text, len(text))
		}
		if column.Wide {
			wide = append(wide, cell)
			continue
		}
		narrow = append(narrow, cell)
	}
	return append(append(narrow, Age(accessor.GetCreationTimestamp())), wide...), nil
}

var _ rest.TableConvertor = Table[runtime.Object]{}

// Age returns the time since a timestamp in the short form of kubectl, or <unknown> if the timestamp is not set.
func Age(since metav1.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(since.Time))
}

// OrNone returns s, or None if it is empty.
func OrNone[T ~string](s T) string {
	if s == "" {
		return None
	}
	return string(s)
}

// Latency returns a duration with at most three significant digits, or None for 0.
func Latency(microseconds int64) string {
	d := time.Duration(microseconds) * time.Microsecond
	switch {
	case d <= 0:
		return None
	case d >= 100*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	default:
		return d.String()
	}
}

// Quantity returns the quantity of a resource, or None if the list does not have the resource.
func Quantity(resources corev1.ResourceList, name corev1.ResourceName) string {
	if quantity, ok := resources[name]; ok {
		return quantity.String()
	}
	return None
}
