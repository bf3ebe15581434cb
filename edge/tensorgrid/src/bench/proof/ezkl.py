"""Proves one model with ezkl and prints what it cost: python - MODEL.onnx INPUT.json"""
import asyncio, inspect, json, os, resource, sys, tempfile, time
import ezkl

model, data = (os.path.abspath(path) for path in sys.argv[1:3])


def call(function, *arguments, **options):
    """Some functions are coroutines in some versions."""
    async def run():
        result = function(*arguments, **options)
        return await result if inspect.isawaitable(result) else result
    return asyncio.run(run())


def timed(function, *arguments, **options):
    def cpu():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime
    wall, before = time.monotonic(), cpu()
    result = call(function, *arguments, **options)
    return result, cpu() - before, time.monotonic() - wall


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    arguments = ezkl.PyRunArgs()
    arguments.input_visibility = "public"
    arguments.output_visibility = "public"
    arguments.param_visibility = "fixed"
    call(ezkl.gen_settings, model, "settings.json", py_run_args=arguments)
    call(ezkl.calibrate_settings, data, model, "settings.json", "resources")
    call(ezkl.compile_circuit, model, "circuit", "settings.json")
    with open("settings.json") as file:
        rows = json.load(file)["run_args"]["logrows"]
    call(ezkl.gen_srs, "srs", rows)
    _, setup, _ = timed(ezkl.setup, "circuit", "vk", "pk", "srs")
    call(ezkl.gen_witness, data, "circuit", "witness.json")
    _, prove, wall = timed(ezkl.prove, "witness.json", "circuit", "pk", "proof.json", "srs")
    valid, verify, _ = timed(ezkl.verify, "proof.json", "settings.json", "vk", "srs")
    if not valid:
        sys.exit("ezkl refuses its own proof")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({
        "setup_s": setup, "prove_cpu_s": prove, "prove_wall_s": wall, "verify_s": verify, "rss_mb": peak,
    }))
