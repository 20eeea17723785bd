// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSchemaListsKnownValues checks that each object of the chart's schema which refuses unknown names also has a
// check whose message lists the known names: the message of additionalProperties does not.
func TestSchemaListsKnownValues(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "chart", "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	if objects := checkKnownValues(t, "", schema); objects < 30 {
		t.Errorf("the schema has only %d objects that refuse unknown names", objects)
	}
}

// checkKnownValues returns the number of objects in a part of the schema that refuse unknown names.
func checkKnownValues(t *testing.T, path string, schema any) (objects int) {
	t.Helper()
	switch schema := schema.(type) {
	case []any:
		for i, item := range schema {
			objects += checkKnownValues(t, fmt.Sprintf("%s/%d", path, i), item)
		}
	case map[string]any:
		for key, below := range schema {
			objects += checkKnownValues(t, path+"/"+key, below)
		}
		if schema["additionalProperties"] != false {
			return objects
		}
		objects++
		names := []any{}
		for _, name := range slices.Sorted(maps.Keys(schema["properties"].(map[string]any))) {
			names = append(names, name)
		}
		known := map[string]any{"enum": names}
		want := map[string]any{"if": map[string]any{"propertyNames": known}, "else": known}
		got := map[string]any{"if": schema["if"], "else": schema["else"]}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("values.schema.json at %q (-want +got):\n%s", path, diff)
		}
	}
	return objects
}
