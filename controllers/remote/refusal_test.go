// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestRefusalsBecauseOfNumbersOfObjectsNameThePolicy(t *testing.T) {
	forbidden := func(name, reason string) error {
		return apierrors.NewForbidden(corev1.Resource("services"), name, errors.New(reason))
	}
	const nodePorts = "exceeded quota: federation, requested: services.nodeports=1, used: services.nodeports=0, " +
		"limited: services.nodeports=0"
	const most = 300
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"node ports", forbidden("web", nodePorts), `services "web" is forbidden: ` + nodePorts + objectsRemedy},
		{"a wrapped error", fmt.Errorf("delivering tokens: %w", forbidden("a", nodePorts)),
			`delivering tokens: services "a" is forbidden: ` + nodePorts + objectsRemedy},
		{"several limits", forbidden("web", "exceeded quota: federation, requested: count/a=1,pods=1, used: b, limited: c"),
			`services "web" is forbidden: exceeded quota: federation, requested: count/a=1,pods=1, used: b, limited: c` +
				objectsRemedy},
		{"a limit of offers",
			forbidden("web", "exceeded quota: federation, requested: pods=1, used: pods=2, limited: pods=2"),
			`services "web" is forbidden: exceeded quota: federation, requested: pods=1, used: pods=2, limited: pods=2`},
		{"another quota", forbidden("web", "exceeded quota: federation-2, requested: count/a=1, used: b, limited: c"),
			`services "web" is forbidden: exceeded quota: federation-2, requested: count/a=1, used: b, limited: c`},
		{"another refusal", forbidden("web", "no"), `services "web" is forbidden: no`},
		{"another error", apierrors.NewInternalError(errors.New(nodePorts)), "Internal error occurred: " + nodePorts},
		{"control characters", forbidden("web", "n\no\x1b"), `services "web" is forbidden: n o`},
		{"a long refusal", errors.New(strings.Repeat("x", 2*most)), strings.Repeat("x", most-len("…")) + "…"},
		{"the remedy is not cut off", forbidden("web", nodePorts+strings.Repeat("0", most)),
			(`services "web" is forbidden: ` + nodePorts + strings.Repeat("0", most))[:most-len(objectsRemedy)-len("…")] +
				"…" + objectsRemedy},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Refusal(test.err, most)
			if diff := cmp.Diff(test.want, got); diff != "" || len(got) > most {
				t.Errorf("%d bytes (-want +got):\n%s", len(got), diff)
			}
		})
	}
}
