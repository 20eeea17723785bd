// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// decision is how a field of a pod is forwarded to the provider.
type decision struct {
	// to is the value that the field always has there; nil if there is none.
	to any
	// verbatim fields are forwarded unchanged. The rest of them is dropped, unless
	// other names the test that covers the field.
	verbatim bool
	other    string
}

var (
	verbatim = decision{verbatim: true}
	dropped  = decision{}
)

func forcedTo(to any) decision             { return decision{to: to} }
func testedBy(test string) decision        { return decision{other: test} }
func (f decision) isDropped() bool         { return f.to == nil && !f.verbatim && f.other == "" }
func (f decision) isTestedElsewhere() bool { return f.other != "" }

// podFields is the decision of every field of a PodSpec. Kubernetes adds fields:
// each of them is decided here before it is forwarded.
var podFields = map[string]decision{
	"Volumes": testedBy(
		"TestShadowPodOmitsClusterFields, TestDownwardAPIHasTheFieldsOfTheLocalPod, TestAShadowPodMountsTheProvidersClaims",
	),
	"InitContainers":      testedBy("containerFields"),
	"Containers":          testedBy("containerFields"),
	"EphemeralContainers": testedBy("containerFields"),

	"RestartPolicy":                 verbatim,
	"TerminationGracePeriodSeconds": verbatim,
	"ActiveDeadlineSeconds":         verbatim,
	"DNSPolicy":                     verbatim,
	"DNSConfig":                     verbatim,
	"ShareProcessNamespace":         verbatim,
	"SecurityContext":               verbatim,
	"ImagePullSecrets":              verbatim,
	"Hostname":                      verbatim,
	"HostnameOverride":              verbatim,
	"Subdomain":                     verbatim,
	"SetHostnameAsFQDN":             verbatim,
	"HostAliases":                   verbatim,
	"HostUsers":                     verbatim,
	"RuntimeClassName":              verbatim,
	"OS":                            verbatim,
	"ResourceClaims":                verbatim,
	"Resources":                     verbatim,

	// The provider schedules the pod.
	"NodeName":                  dropped,
	"NodeSelector":              dropped,
	"Affinity":                  testedBy("TestPodAffinityIsLimitedToThePodsNamespace"),
	"TopologySpreadConstraints": testedBy("TestSpreadConstraintsOfVirtualNodesAreDropped"),
	"Tolerations":               testedBy("TestShadowPodOmitsClusterFields"),
	"SchedulerName":             dropped,
	"SchedulingGates":           dropped,
	"SchedulingGroup":           dropped,
	"Priority":                  dropped,
	"PriorityClassName":         dropped,
	"PreemptionPolicy":          dropped,
	"EvictionResponders":        dropped,
	"Overhead":                  dropped,

	"HostNetwork": forcedTo(false),
	"HostPID":     forcedTo(false),
	"HostIPC":     forcedTo(false),

	"ServiceAccountName":           dropped,
	"DeprecatedServiceAccount":     dropped,
	"AutomountServiceAccountToken": forcedTo(ptr.To(false)),
	"EnableServiceLinks":           forcedTo(ptr.To(false)),
	"ReadinessGates":               dropped,
}

// containerFields is the decision of every field of a container, of any sort.
var containerFields = map[string]decision{
	"Ports":        testedBy("TestShadowPodOmitsClusterFields"),
	"Env":          testedBy("TestDownwardAPIHasTheFieldsOfTheLocalPod"),
	"EnvFrom":      testedBy("TestPodsReferToConfigMapsByTheirRemoteName"),
	"VolumeMounts": testedBy("TestShadowPodOmitsClusterFields"),

	"Name":                     verbatim,
	"Image":                    verbatim,
	"Command":                  verbatim,
	"Args":                     verbatim,
	"WorkingDir":               verbatim,
	"Resources":                verbatim,
	"ResizePolicy":             verbatim,
	"RestartPolicy":            verbatim,
	"RestartPolicyRules":       verbatim,
	"VolumeDevices":            verbatim,
	"LivenessProbe":            verbatim,
	"ReadinessProbe":           verbatim,
	"StartupProbe":             verbatim,
	"Lifecycle":                verbatim,
	"TerminationMessagePath":   verbatim,
	"TerminationMessagePolicy": verbatim,
	"ImagePullPolicy":          verbatim,
	"SecurityContext":          verbatim,
	"Stdin":                    verbatim,
	"StdinOnce":                verbatim,
	"TTY":                      verbatim,
}

func TestEveryFieldOfAPodIsDecided(t *testing.T) {
	local := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", UID: "uid"}}
	fill(reflect.ValueOf(&local.Spec).Elem())
	got := ShadowPod(local, "demo-rome", destination, nil).Spec.Pod
	decided(t, podFields, local.Spec, got)
	decided(t, containerFields, local.Spec.Containers[0], got.Containers[0])
	decided(t, containerFields, local.Spec.InitContainers[0], got.InitContainers[0])
	decided(t, containerFields, corev1.Container(local.Spec.EphemeralContainers[0].EphemeralContainerCommon),
		corev1.Container(got.EphemeralContainers[0].EphemeralContainerCommon))
	if target := got.EphemeralContainers[0].TargetContainerName; target != local.Spec.EphemeralContainers[0].TargetContainerName {
		t.Errorf("the ephemeral container looks at %q", target)
	}
}

// decided compares a value that has all fields set with what became of it.
func decided(t *testing.T, decisions map[string]decision, before, after any) {
	t.Helper()
	old, now := reflect.ValueOf(before), reflect.ValueOf(after)
	for i := range old.NumField() {
		name := old.Type().Field(i).Name
		was, is := old.Field(i), now.Field(i)
		f, known := decisions[name]
		switch {
		case !known:
			t.Errorf("Kubernetes has a field %s of %s: decide what becomes of it, and say so in docs/pods.md", name, old.Type())
		case was.IsZero():
			t.Errorf("%s was not set, so this shows nothing", name)
		case f.isTestedElsewhere():
		case f.isDropped() && !is.IsZero():
			t.Errorf("%s arrived: %v", name, is)
		case f.verbatim:
			if diff := cmp.Diff(was.Interface(), is.Interface()); diff != "" {
				t.Errorf("%s did not arrive as it was:\n%s", name, diff)
			}
		case f.to != nil:
			if diff := cmp.Diff(f.to, is.Interface()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	if len(decisions) != old.NumField() {
		t.Errorf("%d fields of %s are decided, it has %d", len(decisions), old.Type(), old.NumField())
	}
}

// fill sets everything in a value to something.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse("1")))
		return
	case metav1.Time:
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	}
}
