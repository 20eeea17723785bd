// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	goreflect "reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// fate is what becomes of a field of a pod on its way to the provider.
type fate struct {
	// to is the value that the field always has there; nil if it is not forced.
	to any
	// verbatim fields arrive as they are. The rest of them is dropped, unless
	// other names the test that tells more.
	verbatim bool
	other    string
}

var (
	verbatim = fate{verbatim: true}
	dropped  = fate{}
)

func forced(to any) fate         { return fate{to: to} }
func toldBy(test string) fate    { return fate{other: test} }
func (f fate) isDropped() bool   { return f.to == nil && !f.verbatim && f.other == "" }
func (f fate) isElsewhere() bool { return f.other != "" }

// podFields is the fate of every field of a PodSpec. Kubernetes adds fields:
// each of them is decided here before it travels anywhere.
var podFields = map[string]fate{
	"Volumes":             toldBy("TestShadowPodAsksForThePodAlone, TestDownwardAPITellsOfTheLocalPod, TestAShadowPodMountsTheProvidersClaims"),
	"InitContainers":      toldBy("containerFields"),
	"Containers":          toldBy("containerFields"),
	"EphemeralContainers": toldBy("containerFields"),

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

	// Where it runs over there, and before whom.
	"NodeName":                  dropped,
	"NodeSelector":              dropped,
	"Affinity":                  toldBy("TestPodsKeepApartAmongThemselves"),
	"TopologySpreadConstraints": toldBy("TestPodsAreSpreadOverTheNodesOfTheProvider"),
	"Tolerations":               toldBy("TestShadowPodAsksForThePodAlone"),
	"SchedulerName":             dropped,
	"SchedulingGates":           dropped,
	"SchedulingGroup":           dropped,
	"Priority":                  dropped,
	"PriorityClassName":         dropped,
	"PreemptionPolicy":          dropped,
	"EvictionResponders":        dropped,
	"Overhead":                  dropped,

	"HostNetwork": forced(false),
	"HostPID":     forced(false),
	"HostIPC":     forced(false),

	"ServiceAccountName":           dropped,
	"DeprecatedServiceAccount":     dropped,
	"AutomountServiceAccountToken": forced(ptr.To(false)),
	"EnableServiceLinks":           forced(ptr.To(false)),
	"ReadinessGates":               dropped,
}

// containerFields is the fate of every field of a container, of any sort.
var containerFields = map[string]fate{
	"Ports":        toldBy("TestShadowPodAsksForThePodAlone"),
	"Env":          toldBy("TestDownwardAPITellsOfTheLocalPod"),
	"EnvFrom":      toldBy("TestPodsFindConfigMapsUnderTheirOtherName"),
	"VolumeMounts": toldBy("TestShadowPodAsksForThePodAlone"),

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
	fill(goreflect.ValueOf(&local.Spec).Elem())
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
func decided(t *testing.T, fates map[string]fate, before, after any) {
	t.Helper()
	old, now := goreflect.ValueOf(before), goreflect.ValueOf(after)
	for i := range old.NumField() {
		name := old.Type().Field(i).Name
		was, is := old.Field(i), now.Field(i)
		f, known := fates[name]
		switch {
		case !known:
			t.Errorf("Kubernetes has a field %s of %s: decide what becomes of it, and say so in docs/pods.md", name, old.Type())
		case was.IsZero():
			t.Errorf("%s was not set, so this shows nothing", name)
		case f.isElsewhere():
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
	if len(fates) != old.NumField() {
		t.Errorf("%d fields of %s are decided, it has %d", len(fates), old.Type(), old.NumField())
	}
}

// fill sets everything in a value to something.
func fill(v goreflect.Value) {
	switch v.Interface().(type) {
	case resource.Quantity:
		v.Set(goreflect.ValueOf(resource.MustParse("1")))
		return
	case metav1.Time:
		return
	}
	switch v.Kind() {
	case goreflect.Pointer:
		v.Set(goreflect.New(v.Type().Elem()))
		fill(v.Elem())
	case goreflect.Slice:
		v.Set(goreflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case goreflect.Map:
		key, value := goreflect.New(v.Type().Key()).Elem(), goreflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(goreflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case goreflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case goreflect.String:
		v.SetString("x")
	case goreflect.Bool:
		v.SetBool(true)
	case goreflect.Int, goreflect.Int32, goreflect.Int64:
		v.SetInt(1)
	}
}
